"""Steps of random programs, one for each op of the table: an op without one fails a test.

Ops that MLX has as a function of arrays alone are called as their records say, with every dtype
that MLX takes; a step stands below for each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mlx.core as mx
from hypothesis import strategies as st

from kernelwright.ir import OPS, Op
from kernelwright.ir.ops.behaviour import Domain

ROWS, COLUMNS = 4, 8
Step = Callable[[mx.array, mx.array, int], mx.array | list[mx.array]]
DTYPES: tuple[mx.Dtype, ...] = (
    mx.bool_,
    *(mx.uint8, mx.uint16, mx.uint32, mx.uint64),
    *(mx.int8, mx.int16, mx.int32, mx.int64),
    *(mx.float16, mx.bfloat16, mx.float32, mx.complex64),
)
NOT_FROM_FUNCTIONS = {
    "custom_kernel": "a kernel of Metal or CUDA has no values on the CPU",
    **dict.fromkeys(("bitwise_invert", "logcumsumexp", "number_of_elements"), "MLX exports none"),
    **dict.fromkeys(("contiguous", "copy", "stop_gradient"), "MLX leaves it out of a trace"),
}
"""Ops that no program of functions on the CPU makes, and why."""


def _places(x: mx.array, count: int) -> mx.array:
    """Return whole numbers below a count, made of any values."""
    return mx.nan_to_num(mx.abs(mx.real(x).astype(mx.float32))).astype(mx.uint32) % count


def _square(x: mx.array) -> mx.array:
    """Return a symmetric matrix that has an inverse."""
    small = mx.tanh(mx.nan_to_num(x[:, :ROWS]))
    return small @ small.T + ROWS * mx.eye(ROWS, dtype=x.dtype)


def _weights(x: mx.array, count: int) -> tuple[mx.array, mx.array, mx.array]:
    """Return packed 4-bit weights of `count` matrices of 8 by 64, their scales and biases."""
    wide = mx.tile(mx.tanh(mx.nan_to_num(x)), (count, 2, 8)).reshape(count, 8, 64)
    packed, scales, biases = mx.quantize(wide if count > 1 else wide[0], 32, 4)
    return packed, scales, biases


def _masked(x: mx.array, y: mx.array) -> mx.array:
    z = mx.array(x)
    z[y > 0] = 1
    return z


def _updated(x: mx.array, y: mx.array) -> mx.array:
    z = mx.array(x)
    z[1:3, ::2] = y[1:3, ::2]
    return z


STEPS: dict[str, Step] = {
    "equal": lambda x, y, n: mx.equal(x, y),
    "cast": lambda x, y, n: x.astype(DTYPES[n % len(DTYPES)]),
    "real": lambda x, y, n: mx.real(x.astype(mx.complex64)),
    "imag": lambda x, y, n: mx.imag(x.astype(mx.complex64)),
    "conjugate": lambda x, y, n: mx.conj(x.astype(mx.complex64)),
    "select": lambda x, y, n: mx.where(y > 0, x, y),
    "mean": lambda x, y, n: x.mean(axis=n % 2, keepdims=True),
    "softmax": lambda x, y, n: mx.softmax(x, axis=n % 2),
    "logsumexp": lambda x, y, n: mx.logsumexp(x, axis=n % 2, keepdims=True),
    "sorted_slice": lambda x, y, n: mx.sort(x, axis=-1)[:, -2:],
    "argsorted_slice": lambda x, y, n: mx.argsort(x, axis=-1)[:, :3],
    "partition": lambda x, y, n: mx.partition(x, n % COLUMNS, axis=-1)[:, n % COLUMNS],
    "argpartition": lambda x, y, n: mx.argpartition(x, n % COLUMNS, axis=-1)[:, n % COLUMNS],
    "search_sorted": lambda x, y, n: mx.searchsorted(mx.sort(x[0]), y),
    "matmul": lambda x, y, n: x @ y.T,
    "addmm": lambda x, y, n: mx.addmm(x[:, :ROWS], x, y.T, 0.5, 2.0),
    "gather_mm": lambda x, y, n: mx.gather_mm(
        x.reshape(2, 2, 8), y.reshape(2, 8, 2), _places(x[0, :3], 2), _places(y[0, :3], 2)
    ),
    "block_masked_mm": lambda x, y, n: mx.block_masked_mm(
        mx.tile(x, (8, 4)), mx.tile(y, (8, 4)), 32, mx.ones((1, 1), dtype=mx.bool_)
    ),
    "quantize": lambda x, y, n: mx.quantize(mx.tile(x, (2, 8)), 32, 4)[n % 3],
    "dequantize": lambda x, y, n: mx.dequantize(*_weights(x, 1), 32, 4),
    "quantized_matmul": lambda x, y, n: mx.quantized_matmul(x, *_weights(y, 1), False, 32, 4),
    "gather_qmm": lambda x, y, n: mx.gather_qmm(
        x.reshape(2, 2, 8),
        *_weights(y, 2),
        rhs_indices=_places(y[0, :2], 2),
        transpose=False,
        group_size=32,
        bits=4,
    ),
    "convolution": lambda x, y, n: mx.conv1d(x[None], y[:, None, :], 1, n % 2, 1),
    "attention": lambda x, y, n: mx.fast.scaled_dot_product_attention(
        x[None, None], y[None, None], mx.square(y)[None, None], scale=0.5
    ),
    "arange": lambda x, y, n: x + mx.arange(n, n + COLUMNS, dtype=x.dtype),
    "concatenate": lambda x, y, n: mx.concatenate([x, y[:, 1:]], axis=-1),
    "pad": lambda x, y, n: mx.pad(x, [(1, n % 3), (0, 2)], constant_values=n % 2),
    "gather": lambda x, y, n: x[_places(y[0], ROWS)],
    "gather_axis": lambda x, y, n: mx.take_along_axis(x, _places(y, ROWS), axis=n % 2),
    "scatter": lambda x, y, n: x.at[_places(y[0, :3], ROWS)].add(y[:3]),
    "scatter_axis": lambda x, y, n: mx.put_along_axis(
        x, mx.argsort(_places(y, ROWS), axis=-1), y, axis=-1
    ),
    "masked_scatter": lambda x, y, n: _masked(x, y),
    "slice_update": lambda x, y, n: _updated(x, y),
    "dynamic_slice": lambda x, y, n: mx.slice(x, _places(y[0, :1], 2), (0,), (2, COLUMNS)),
    "dynamic_slice_update": lambda x, y, n: mx.slice_update(x, y[:2], _places(x[0, :1], 3), (0,)),
    "broadcast": lambda x, y, n: mx.broadcast_to(x[:1], (ROWS, COLUMNS)),
    "reshape": lambda x, y, n: x.T.reshape(2, -1),
    "expand_dims": lambda x, y, n: mx.expand_dims(x, n % 3),
    "squeeze": lambda x, y, n: mx.squeeze(x[:1], 0),
    "flatten": lambda x, y, n: mx.flatten(x),
    "unflatten": lambda x, y, n: mx.unflatten(x, 1, (2, -1)),
    "transpose": lambda x, y, n: x.reshape(2, 2, COLUMNS).transpose(2, n % 2, 1 - n % 2),
    "slice": lambda x, y, n: x[:: (-1, 1)[n % 2], 1:-1:2],
    "split": lambda x, y, n: mx.split(x, [1, 3], axis=1)[n % 3],
    "as_strided": lambda x, y, n: mx.as_strided(mx.contiguous(x), (3, 2), (1, 2), n % 4),
    "full": lambda x, y, n: mx.full((ROWS, COLUMNS), x[0, 0]),
    "copy": lambda x, y, n: mx.array(x),
    "contiguous": lambda x, y, n: mx.contiguous(x.T),
    "stop_gradient": lambda x, y, n: mx.stop_gradient(x),
    "depends": lambda x, y, n: mx.depends([x], [y])[0],
    "view": lambda x, y, n: x.view(mx.uint8),
    "divmod": lambda x, y, n: mx.divmod(x, mx.abs(y) + 1)[n % 2],
    "fft": lambda x, y, n: mx.fft.fft(x, axis=n % 2),
    "inverse": lambda x, y, n: mx.linalg.inv(_square(x)),
    "cholesky": lambda x, y, n: mx.linalg.cholesky(_square(x)),
    "hadamard": lambda x, y, n: mx.hadamard_transform(x),
    "qr": lambda x, y, n: mx.linalg.qr(_square(x))[n % 2],
    "svd": lambda x, y, n: mx.linalg.svd(_square(x))[1],
    "eig": lambda x, y, n: mx.linalg.eigvals(_square(x)),
    "eigh": lambda x, y, n: mx.linalg.eigvalsh(_square(x)),
    "random_bits": lambda x, y, n: mx.random.uniform(shape=(ROWS, COLUMNS), key=mx.random.key(n)),
}


def _called(op: Op) -> Step:
    """Return the call of an op as its record says: operands in their domains, along an axis."""
    call = op.mlx
    assert call is not None
    function = getattr(mx, call.function)
    flags = {"reverse": True, "inclusive": False}

    def step(x: mx.array, y: mx.array, n: int) -> mx.array:
        given = {"axes": (n % 2,), "axis": n % 2, **flags}
        keywords = {k: given[a] for k, a in call.attributes} | dict(call.constants)
        try:
            made: mx.array = function(_within(op, 0, x), **keywords)
        except TypeError:
            made = function(_within(op, 0, x), _within(op, 1, y), **keywords)
        return made

    return step


def _within(op: Op, place: int, x: mx.array) -> mx.array:
    match op.behaviour.domain(place, 2):
        case Domain.POSITIVE:
            return mx.abs(x) + 1
        case Domain.DIVISOR:
            return mx.where(x == 0, 1, x).astype(x.dtype)
        case Domain.SHIFT:
            return mx.abs(x) % 8
    return x


def step_of(name: str) -> Step:
    """Return the step that makes an op.

    Raises:
        KeyError: it needs one of its own, and has none.
    """
    op = OPS[name]
    is_bare = op.mlx is not None and len(op.mlx.attributes) == len(op.attributes)
    return _called(op) if is_bare and name not in STEPS else STEPS[name]


@cache
def dtypes_of(name: str) -> tuple[mx.Dtype, ...]:
    """Return the dtypes of operands that MLX takes for an op, on the CPU."""
    return tuple(dtype for dtype in DTYPES if _is_taken(step_of(name), dtype))


def _is_taken(step: Step, dtype: mx.Dtype) -> bool:
    x = (mx.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 5).astype(dtype)
    try:
        mx.eval(step(x, x, 1))
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


@dataclass(frozen=True)
class Drawn:
    """A step of a program: which op, of which dtype, of which earlier values."""

    op: str
    dtype: mx.Dtype
    first: int
    second: int
    number: int


@dataclass(frozen=True)
class OpProgram:
    """Steps one after the other; every value is a matrix of one size."""

    steps: tuple[Drawn, ...]

    def __call__(self, *inputs: mx.array) -> list[mx.array]:
        pool = list(inputs)
        for step in self.steps:
            x, y = (_cast(pool[-1 - i % len(pool)], step.dtype) for i in (step.first, step.second))
            made = step_of(step.op)(x, y, step.number)
            pool.append(_fitted(made[0] if isinstance(made, list | tuple) else made))
        return pool[len(inputs) :][-2:]


def _cast(x: mx.array, dtype: mx.Dtype) -> mx.array:
    """Return values in another dtype, those alone that each dtype has."""
    if x.dtype == dtype:
        return x
    if mx.issubdtype(dtype, mx.integer):
        x = mx.clip(mx.nan_to_num(mx.real(x).astype(mx.float32)), 0, 100)
    return x.astype(dtype)


def _fitted(x: mx.array) -> mx.array:
    """Return the first values of an array as a matrix, over again where there are too few."""
    if x.shape == (ROWS, COLUMNS):
        return x
    count = ROWS * COLUMNS
    return mx.tile(x.reshape(-1), -(-count // x.size))[:count].reshape(ROWS, COLUMNS)


def op_programs(most_steps: int = 6) -> st.SearchStrategy[OpProgram]:
    """Generate programs over every op of the table and every dtype that MLX takes for it."""
    number = st.integers(0, 12)
    drawn = st.sampled_from([*OPS.keys() - NOT_FROM_FUNCTIONS.keys()]).flatmap(
        lambda name: st.builds(
            Drawn, st.just(name), st.sampled_from(dtypes_of(name)), number, number, number
        )
    )
    return st.builds(OpProgram, st.lists(drawn, min_size=1, max_size=most_steps).map(tuple))


def matrices(seed: int) -> list[mx.array]:
    """Return the two inputs of a program."""
    keys = mx.random.split(mx.random.key(seed), 2)
    return [mx.random.normal((ROWS, COLUMNS), key=key) * 2 for key in keys]
