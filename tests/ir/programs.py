"""Random functions of MLX arrays, for properties that hold of every graph."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from hypothesis import strategies as st

ROWS, COLUMNS = 3, 8
Pool = list[mx.array]

_UNARY: tuple[Callable[[mx.array], mx.array], ...] = (
    mx.negative,
    mx.square,
    mx.sigmoid,
    mx.tanh,
    mx.abs,
    lambda x: 1 - x,
    lambda x: 2 / (x + 9),
    lambda x: x * 0.5,
    lambda x: mx.exp(-mx.abs(x)),
    lambda x: x.astype(mx.float16).astype(mx.float32),
    lambda x: mx.where(x > 0, x, 0.0),
    mx.stop_gradient,
    lambda x: mx.contiguous(x),
)
_BINARY: tuple[Callable[[mx.array, mx.array], mx.array], ...] = (
    mx.add,
    mx.subtract,
    mx.multiply,
    mx.maximum,
    lambda x, y: x / (1 + mx.abs(y)),
    lambda x, y: mx.where(x < y, x, y),
)
_ROW: tuple[Callable[[mx.array], mx.array], ...] = (
    lambda x: x.mean(axis=-1, keepdims=True),
    lambda x: x.mean(axis=-1)[:, None],
    lambda x: x.sum(axis=-1, keepdims=True) / COLUMNS,
    lambda x: mx.var(x, axis=-1, keepdims=True),
    lambda x: x.max(axis=-1)[..., None],
    lambda x: x - x.max(axis=-1, keepdims=True),
    lambda x: mx.softmax(x, axis=-1),
    lambda x: mx.logsumexp(x, axis=-1, keepdims=True),
    lambda x: x * mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + 1e-5),
)
_VIEW: tuple[Callable[[mx.array], mx.array], ...] = (
    lambda x: x.T.reshape(COLUMNS, ROWS).T,
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: mx.flatten(x[None], 0, 1),
    lambda x: mx.broadcast_to(x[None], (2, *x.shape))[1],
    lambda x: mx.concatenate(list(mx.split(x, 2, axis=-1))[::-1], axis=-1),
    lambda x: x[:, ::-1],
    lambda x: x.reshape(ROWS, 2, -1).transpose(0, 2, 1).reshape(ROWS, -1),
)
_SCAN: tuple[Callable[[mx.array], mx.array], ...] = (
    lambda x: mx.cumsum(x, axis=-1),
    lambda x: mx.cummax(x, axis=-1, reverse=True),
    lambda x: mx.cumprod(x, axis=0),
    lambda x: mx.sort(x, axis=-1),
    lambda x: mx.topk(x, 2, axis=-1).sum(axis=-1, keepdims=True),
    lambda x: mx.argmax(x, axis=-1, keepdims=True).astype(x.dtype),
    lambda x: mx.take_along_axis(x, mx.argsort(x, axis=-1), axis=-1),
)


def _quantized(x: mx.array) -> mx.array:
    weight = mx.sin(mx.arange(COLUMNS * 8 * COLUMNS).reshape(COLUMNS, -1))
    return mx.quantized_matmul(mx.concatenate([x] * 8, axis=-1), *mx.quantize(weight))


_PRODUCT: tuple[Callable[[mx.array], mx.array], ...] = (
    lambda x: x @ x.T @ x,
    lambda x: x @ mx.sin(mx.arange(COLUMNS * COLUMNS).reshape(COLUMNS, COLUMNS)),
    lambda x: mx.addmm(x[0], x, mx.eye(COLUMNS)),
    _quantized,
)


@dataclass(frozen=True)
class Program:
    """A list of steps; each reads earlier values by number and adds one."""

    steps: tuple[tuple[str, int, int, int], ...]
    outputs: tuple[int, ...]

    def __call__(self, *inputs: mx.array) -> list[mx.array]:
        pool: Pool = list(inputs)
        for kind, choice, first, second in self.steps:
            x, y = pool[first % len(pool)], pool[second % len(pool)]
            wide = mx.broadcast_to(x, (ROWS, COLUMNS))
            match kind:
                case "unary":
                    pool.append(_UNARY[choice % len(_UNARY)](x))
                case "binary":
                    pool.append(_BINARY[choice % len(_BINARY)](x, y))
                case "row":
                    pool.append(_ROW[choice % len(_ROW)](wide))
                case "scan":
                    pool.append(_SCAN[choice % len(_SCAN)](wide))
                case "product":
                    pool.append(_PRODUCT[choice % len(_PRODUCT)](wide))
                case _:
                    pool.append(_VIEW[choice % len(_VIEW)](wide))
        return [pool[-1 - i % len(pool)] for i in self.outputs]


KINDS = ("unary", "binary", "binary", "row", "view")
ALL_KINDS = (*KINDS, "scan", "product")


def programs(most_steps: int = 10, kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Program]:
    """Generate programs of two inputs: a matrix and a row."""
    number = st.integers(0, 40)
    kind = st.sampled_from(kinds)
    steps = st.lists(st.tuples(kind, number, number, number), min_size=1, max_size=most_steps)
    outputs = st.lists(st.integers(0, 3), min_size=1, max_size=2)
    return st.builds(
        lambda s, o: Program(tuple(s), tuple(o)),
        steps,
        outputs,
    )


def example(seed: int) -> Pool:
    """Make inputs of a program."""
    keys = mx.random.split(mx.random.key(seed), 2)
    return [
        mx.random.normal((ROWS, COLUMNS), key=keys[0]),
        mx.random.normal((COLUMNS,), key=keys[1]),
    ]
