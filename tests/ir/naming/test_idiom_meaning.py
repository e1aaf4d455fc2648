"""Whatever has a name computes what the name says: square arrays let every mistake be written."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ir import canonicalize, capture, idioms
from kernelwright.ir.naming.idioms import Idiom
from tests.ir.naming.idiom_meaning import misnamed

SIZE = 4
SQUARE, VECTOR = mx.zeros((SIZE, SIZE)), mx.zeros((SIZE,))
WIDE = mx.zeros((SIZE, SIZE * SIZE))
Function = Callable[..., mx.array]
VIEWS: dict[str, Callable[[mx.array], mx.array]] = {
    "as it is": lambda x: x,
    "reshaped twice": lambda x: x[None].reshape(x.shape),
    "in float32": lambda x: x.astype(mx.float32),
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
    "in other rows": lambda x: x.reshape(SIZE // 2, -1).reshape(-1, SIZE),
    "as integers": lambda x: x.astype(mx.int32).astype(x.dtype),
    "as truth values": lambda x: x.astype(mx.bool_).astype(x.dtype),
    "the first row": lambda x: mx.broadcast_to(x[:1], x.shape),
    "the first column": lambda x: mx.broadcast_to(x[:, :1], x.shape),
    "less one": lambda x: x - 1,
    "doubled": lambda x: 2 * x,
    "negated": lambda x: -x,
}
ROWS: dict[str, Callable[[Function, mx.array], mx.array]] = {
    "kept": lambda f, x: f(x, axis=-1, keepdims=True),
    "kept by hand": lambda f, x: f(x, axis=1)[:, None],
    "turned around": lambda f, x: f(x, axis=-1),
    "columns": lambda f, x: f(x, axis=0, keepdims=True),
    "columns, turned": lambda f, x: f(x, axis=0)[:, None],
    "everything": lambda f, x: f(x, axis=(0, 1), keepdims=True),
    "pairs of rows": lambda f, x: mx.repeat(f(x.reshape(2, -1), axis=-1, keepdims=True), 2, 0),
    "parts of rows": lambda f, x: mx.repeat(
        f(x.reshape(SIZE, 2, -1), axis=-1), x.shape[-1] // 2, axis=-1
    ),
}
PLAIN_VIEWS, PLAIN_ROWS = ("as it is", "reshaped twice", "in float32"), ("kept", "kept by hand")
WEIGHTS: dict[str, Function] = {
    "none": lambda x, w: x,
    "of columns": lambda x, w: x * w,
    "of rows": lambda x, w: x * w[:, None],
    "below": lambda x, w: x / w,
    "a number": lambda x, w: x * 0.5,
}


@dataclass(frozen=True)
class Way:
    """Which views, rows, numbers and weights a text takes where it needs one."""

    views: tuple[str, ...]
    rows: tuple[str, ...]
    weight: str
    number: float

    def seen(self, place: int, x: mx.array) -> mx.array:
        return VIEWS[self.views[place]](x)

    def row(self, place: int, function: Function, x: mx.array) -> mx.array:
        return ROWS[self.rows[place]](function, x)


def softmax(way: Way, x: mx.array, w: mx.array) -> mx.array:
    powers = mx.exp(way.seen(0, x) - way.row(0, mx.max, x))
    return powers / way.row(1, mx.sum, way.seen(1, powers))


def log_softmax(way: Way, x: mx.array, w: mx.array) -> mx.array:
    total = mx.log(way.row(0, mx.sum, mx.exp(way.seen(0, x) - way.row(1, mx.max, x))))
    return way.seen(1, x) - (total + way.row(1, mx.max, x))


def cross_entropy(way: Way, x: mx.array, w: mx.array) -> mx.array:
    target = mx.array([3, 1, 0, 2])
    picked = mx.take_along_axis(way.seen(0, x), target[:, None], axis=1 if way.number else 0)
    return way.row(0, mx.logsumexp, way.seen(1, x)) - picked


def rms_norm(way: Way, x: mx.array, w: mx.array) -> mx.array:
    spread = way.row(0, mx.mean, way.seen(0, x) * way.seen(1, x))
    return WEIGHTS[way.weight](x * mx.rsqrt(spread + 1e-5), w)


def layer_norm(way: Way, x: mx.array, w: mx.array) -> mx.array:
    centred = x - way.row(0, mx.mean, way.seen(0, x))
    spread = way.row(1, mx.mean, mx.square(way.seen(1, centred)))
    return WEIGHTS[way.weight](centred / mx.sqrt(spread + 1e-5), w) + w


def swiglu(way: Way, x: mx.array, w: mx.array) -> mx.array:
    return WEIGHTS[way.weight](way.seen(0, x) * mx.sigmoid(way.number * way.seen(1, x)), w)


def gelu(way: Way, x: mx.array, w: mx.array) -> mx.array:
    inner = way.seen(1, x) / (math.sqrt(2) * way.number)
    return WEIGHTS[way.weight](0.5 * way.seen(0, x) * (1 + mx.erf(inner)), w)


def gelu_tanh(way: Way, x: mx.array, w: mx.array) -> mx.array:
    inner = way.seen(1, x) + 0.044715 * way.seen(0, x) ** 3
    return 0.5 * x * (1 + mx.tanh(way.number * math.sqrt(2 / math.pi) * inner))


def relu(way: Way, x: mx.array, w: mx.array) -> mx.array:
    return mx.where(way.seen(0, x) > way.number - 1, way.seen(1, x), 0.0) * way.seen(0, x)


TEXTS: dict[str, Callable[[Way, mx.array, mx.array], mx.array]] = {
    function.__name__: function
    for function in (
        softmax,
        log_softmax,
        cross_entropy,
        rms_norm,
        layer_norm,
        swiglu,
        gelu,
        gelu_tanh,
        relu,
    )
}


def _ways(views: st.SearchStrategy[str], rows: st.SearchStrategy[str]) -> st.SearchStrategy[Way]:
    return st.builds(
        Way,
        st.tuples(views, views),
        st.tuples(rows, rows),
        st.sampled_from([*WEIGHTS]),
        st.sampled_from([1.0, 1.0, 1.702, 0.5, 0.0]),
    )


# Most of a text is right, so that a single mistake is seen.
ways = _ways(st.sampled_from([*PLAIN_VIEWS * 3, *VIEWS]), st.sampled_from([*PLAIN_ROWS * 3, *ROWS]))


def wrong_names(function: Function, *shapes: mx.array) -> list[Idiom]:
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, *shapes))
    drawn = np.random.default_rng(0)
    arrays = [drawn.normal(size=array.shape) + 0.1 for array in shapes]
    return misnamed(graph, idioms(graph), arrays)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*TEXTS]), ways)
def test_what_has_a_name_computes_what_it_says(text: str, way: Way) -> None:
    assert not wrong_names(lambda x, w: TEXTS[text](way, x, w), SQUARE, VECTOR)


MISTAKES: dict[str, tuple[Function, mx.array]] = {
    "a total across": (lambda x: mx.exp(x) / mx.exp(x).sum(-1), SQUARE),
    "a log-sum-exp across": (lambda x: x - mx.logsumexp(x, -1), SQUARE),
    "a spread across": (lambda x: x * mx.rsqrt((x * x).mean(-1) + 1e-5), SQUARE),
    "a mean across": (lambda x: (x - x.mean(-1)) * mx.rsqrt(x.var(-1, keepdims=True)), SQUARE),
    "a corrected mean": (
        lambda x: x * mx.rsqrt((x * x).sum(-1, keepdims=True) / (SIZE - 1) + 1e-5),
        SQUARE,
    ),
    "a truncated square": (
        lambda x: x * mx.rsqrt((x * x.astype(mx.int32)).mean(-1, keepdims=True) + 1e-5),
        SQUARE,
    ),
    "an outer product": (
        lambda v: v[:, None] * mx.rsqrt((v[:, None] * v[None]).mean(-1, keepdims=True) + 9.0),
        VECTOR,
    ),
    "an outer gate": (lambda v: v[:, None] * mx.sigmoid(v[None]), VECTOR),
    "totals of longer rows": (
        lambda x: mx.exp(x) / mx.repeat(mx.exp(x).reshape(2, -1).sum(-1), 2)[:, None],
        SQUARE,
    ),
    "a norm of groups": (
        lambda x: (
            x
            * mx.rsqrt(
                mx.repeat(mx.square(x).reshape(SIZE, SIZE, SIZE).mean(-1), SIZE, axis=-1) + 1e-5
            )
        ),
        WIDE,
    ),
    "a norm that is divided": (
        lambda x: x * mx.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) / mx.exp(x[0]),
        SQUARE,
    ),
    "another row's targets": (
        lambda x: (
            -mx.take_along_axis(
                x - mx.logsumexp(x, -1, keepdims=True), mx.arange(SIZE)[:, None], axis=0
            )
        ),
        SQUARE,
    ),
    "several elements of each row": (
        lambda x: mx.logsumexp(x, -1, keepdims=True) - x[:, mx.array([3, 1, 0, 2])],
        SQUARE,
    ),
    "a cube that weighs more": (
        lambda x: 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.1 * x**3))),
        SQUARE,
    ),
    "a cosine beside x": (lambda x: x * mx.sigmoid(1.702 * x * mx.cos(x)), SQUARE),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_no_name_that_hides_it(name: str) -> None:
    function, shape = MISTAKES[name]
    assert not wrong_names(function, shape)
