"""Functions of MLX arrays for the tests of this room: each with the primitives that it uses."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

Function = Callable[..., object]


@dataclass(frozen=True)
class Case:
    """A function and the kinds of arrays that it takes.

    Kinds: `f` any float, `p` positive, `u` between -1 and 1, `i` small integers, `n` row
    numbers, `b` booleans, `k` a random key, `q` a 3-d float.
    """

    name: str
    function: Function
    kinds: str


_UNARY = (
    "abs exp expm1 sin cos tan sinh cosh tanh sigmoid erf negative square floor ceil round sign"
)
_UNARY_POSITIVE = "sqrt rsqrt log log2 log10 log1p arccosh"
_UNARY_SMALL = "arcsin arccos arctan arcsinh arctanh erfinv"
_BINARY = (
    "add subtract multiply maximum minimum less less_equal greater greater_equal equal not_equal "
    "logaddexp arctan2"
)
_BINARY_POSITIVE = "divide power floor_divide remainder"
_INTEGER = "bitwise_and bitwise_or bitwise_xor"
_REDUCE = "sum prod max min logsumexp softmax mean var std argmax argmin"
_SCAN = "cumsum cumprod cummax cummin"


def _named(names: str, kinds: str) -> list[Case]:
    return [Case(name, getattr(mx, name), kinds) for name in names.split()]


def _along(names: str, axis: int) -> list[Case]:
    def over(name: str) -> Function:
        return lambda x: getattr(mx, name)(x, axis=axis)

    return [Case(f"{name} axis {axis}", over(name), "f") for name in names.split()]


def _scans() -> list[Case]:
    def over(name: str) -> Function:
        return lambda x: getattr(mx, name)(x, axis=-1, reverse=True, inclusive=False)

    return [Case(f"{name} reversed", over(name), "f") for name in _SCAN.split()]


def _divmod(x: mx.array, y: mx.array) -> object:
    return mx.divmod(x, y)


def _masked(x: mx.array, mask: mx.array) -> mx.array:
    y = mx.array(x)
    y[mask] = 1.5
    return y


def _updated(x: mx.array, y: mx.array) -> mx.array:
    z = mx.array(x)
    z[1:3, ::2] = y[1:3, ::2]
    return z


def _gradient(x: mx.array, rows: mx.array) -> mx.array:
    gradient: mx.array = mx.grad(lambda y: (y[rows] ** 2).sum())(x)
    return gradient


def _axis_gradient(x: mx.array, rows: mx.array) -> mx.array:
    index = mx.broadcast_to(rows[:, None], (rows.shape[0], x.shape[1]))
    loss = mx.grad(lambda y: (mx.take_along_axis(y, index, 0) ** 2).sum())
    gradient: mx.array = loss(x)
    return gradient


CASES: tuple[Case, ...] = (
    *_named(_UNARY, "f"),
    *_named(_UNARY_POSITIVE, "p"),
    *_named(_UNARY_SMALL, "u"),
    *_named(_BINARY, "ff"),
    *_named(_BINARY_POSITIVE, "pp"),
    *_named(_INTEGER, "ii"),
    *_along(_REDUCE, -1),
    *_along("sum max mean sort argsort", 0),
    *_scans(),
    Case("1 - x", lambda x: 1 - x, "f"),
    Case("2 / x", lambda x: 2 / x, "p"),
    Case("x / 2", lambda x: x / 2, "f"),
    Case("negative integer division", lambda x, y: (x - 4) // (y + 1), "ii"),
    Case("negative integer remainder", lambda x, y: (x - 4) % (y + 1), "ii"),
    Case("integer power", lambda x, y: x**y, "ii"),
    Case("shifts", lambda x, y: [mx.left_shift(x, y), mx.right_shift(x, y)], "ii"),
    Case("logic", lambda a, b: [a & b, a | b, mx.logical_not(a)], "bb"),
    Case("logic of numbers", lambda x, y: [mx.logical_and(x, y), mx.logical_or(x, y)], "ii"),
    Case("all and any", lambda a: [mx.all(a, axis=0), mx.any(a, axis=-1), a.all()], "b"),
    Case("select", lambda b, x, y: mx.where(b, x, y), "bff"),
    Case("array_equal", lambda x, y: mx.array_equal(x, y, equal_nan=True), "ff"),
    Case("divmod", _divmod, "pp"),
    Case("cast to integer", lambda x: (x * 3).astype(mx.int32), "f"),
    Case("cast to bool", lambda x: x.astype(mx.bool_), "i"),
    Case("bits", lambda x: x.astype(mx.float32).view(mx.uint32), "f"),
    Case("nan_to_num", lambda x: mx.nan_to_num(mx.log(x - 0.5)), "p"),
    Case("precise softmax", lambda x: mx.softmax(x, axis=-1, precise=True), "f"),
    Case("softmax of two axes", lambda x: mx.softmax(x, axis=(0, 1)), "f"),
    Case("mean of everything", lambda x: x.mean(), "f"),
    Case("variance with ddof", lambda x: mx.var(x, axis=-1, ddof=1), "f"),
    Case("topk", lambda x: mx.topk(x, 2, axis=-1), "f"),
    Case("argpartition", lambda x: mx.argpartition(x, 2, axis=-1), "f"),
    Case("median", lambda x: mx.median(x, axis=-1), "f"),
    Case("matmul", lambda x, y: x @ y.T, "ff"),
    Case("addmm", lambda x, y: mx.addmm(mx.ones((4, 4)), x, y.T, 2.0, 0.5), "ff"),
    Case("einsum", lambda x, y: mx.einsum("ij,kj->ik", x, y), "ff"),
    Case("conv1d", lambda x: mx.conv1d(x, mx.ones((5, 2, 6)), 2, 1, 1), "q"),
    Case("conv1d groups", lambda x: mx.conv1d(x, mx.ones((6, 2, 2)), 1, 0, 1, 3), "q"),
    Case("conv_transpose1d", lambda x: mx.conv_transpose1d(x, mx.ones((5, 2, 6)), 2, 1), "q"),
    Case("transpose", lambda x: x.transpose(2, 0, 1), "q"),
    Case("reshape of a transpose", lambda x: x.T.reshape(2, -1), "f"),
    Case("flatten", lambda x: [mx.flatten(x), mx.unflatten(x, 1, (2, 3))], "f"),
    Case("squeeze", lambda x: mx.squeeze(x[None] * 2, 0), "f"),
    Case("slices", lambda x: [x[1:3, ::2], x[::-1], x[:, -2:]], "f"),
    Case("split", lambda x: mx.split(x, [1, 3], axis=1), "f"),
    Case("concatenate", lambda x, y: mx.concatenate([x, y * 2], axis=1), "ff"),
    Case("stack", lambda x, y: mx.stack([x, y], axis=1), "ff"),
    Case("pad", lambda x: mx.pad(x, [(1, 2), (0, 1)], constant_values=3.0), "f"),
    Case("roll", lambda x: mx.roll(x, 2, 1), "f"),
    Case("as_strided", lambda x: mx.as_strided(x, (3, 2), (1, 2), 1), "f"),
    Case("repeat and tile", lambda x: [mx.repeat(x, 2, axis=1), mx.tile(x, (2, 1))], "f"),
    Case("arange", lambda x: x + mx.arange(6), "f"),
    Case("arange of two dtypes", lambda x: [mx.arange(4) + 1, mx.arange(4.0) + 1, x], "f"),
    Case("tril", lambda x: mx.tril(x), "f"),
    Case("full", lambda x: mx.full((4, 6), x[0, 0]) + mx.ones((4, 6)), "f"),
    Case("take", lambda x, n: [mx.take(x, n, axis=0), mx.take(x, n, axis=1)], "fn"),
    Case("two index arrays", lambda x, n: x[n, n], "fn"),
    Case("take_along_axis", lambda x: mx.take_along_axis(x, mx.argsort(x, 1), 1), "f"),
    Case("put_along_axis", lambda x, y: mx.put_along_axis(x, mx.argsort(x, 1), y, 1), "ff"),
    Case("scatter add", lambda x, n, y: x.at[n].add(y[:3]), "fnf"),
    Case("scatter maximum", lambda x, n, y: x.at[n].maximum(y[:3]), "fnf"),
    Case("slice update", _updated, "ff"),
    Case("slice add", lambda x, y: x.at[1:3].add(y[:2]), "ff"),
    Case("masked assignment", _masked, "fb"),
    Case("dynamic slice", lambda x, n: mx.slice(x, n[:1] // 2, (0,), (2, 6)), "fn"),
    Case("dynamic update", lambda x, y, n: mx.slice_update(x, y[:2], n[:1] // 2, (0,)), "ffn"),
    Case("gradient of a gather", _gradient, "fn"),
    Case("gradient along an axis", _axis_gradient, "fn"),
    Case("normal", lambda k: mx.random.normal((3, 5), key=k), "k"),
    Case("randint", lambda k: mx.random.randint(0, 100, (3, 5), key=k), "k"),
    Case(
        "half-width bits", lambda k: mx.random.uniform(shape=(3, 5), dtype=mx.float16, key=k), "k"
    ),
    Case("fft", lambda x: mx.fft.irfft(mx.fft.rfft(x), n=6), "f"),
    Case("complex parts", lambda x: [mx.fft.fft(x).real, mx.conj(mx.fft.fft(x)).imag], "f"),
    Case("stop_gradient", lambda x: mx.stop_gradient(x * 2), "f"),
    Case("contiguous", lambda x: mx.contiguous(x.T) * 2, "f"),
    Case("rms_norm", lambda x, y: mx.fast.rms_norm(x, y[0], 1e-5), "ff"),
    Case("layer_norm", lambda x, y: mx.fast.layer_norm(x, y[0], y[1], 1e-5), "ff"),
    Case(
        "rope", lambda x: mx.fast.rope(x, 6, traditional=True, base=1e4, scale=1.0, offset=2), "q"
    ),
    Case("cross_entropy", lambda x, n: mx.fast.cross_entropy(x[:3], n), "fn"),
)

SINGLE_PRECISION_ONLY = frozenset({"fft", "complex parts", "conv1d", "addmm"})
"""Cases that mix in float32 arrays, or ops that MLX offers in float32 only."""
EITHER_ANSWER_IS_RIGHT = frozenset({"argpartition"})
"""Ops whose order MLX leaves open, so that only MLX itself gives the same answer."""


def arrays(kinds: str, seed: int, dtype: mx.Dtype = mx.float32) -> list[mx.array]:
    """Make arrays of the kinds that a case takes."""
    keys = mx.random.split(mx.random.key(seed), len(kinds))
    return [_array(kind, key, dtype) for kind, key in zip(kinds, keys, strict=True)]


def _array(kind: str, key: mx.array, dtype: mx.Dtype) -> mx.array:
    shape = (2, 4, 6) if kind == "q" else (4, 6)
    match kind:
        case "p":
            return mx.random.uniform(1.0, 3.0, shape, key=key).astype(dtype)
        case "u":
            return mx.random.uniform(-0.9, 0.9, shape, key=key).astype(dtype)
        case "i":
            return mx.random.randint(0, 7, shape, key=key)
        case "n":
            return mx.random.randint(0, 4, (3,), key=key)
        case "b":
            return mx.random.bernoulli(0.5, shape, key=key)
        case "k":
            return key
        case _:
            return (mx.random.normal(shape, key=key) * 2).astype(dtype)


def flat(result: object) -> list[mx.array]:
    """List the arrays of a result."""
    if isinstance(result, mx.array):
        return [result]
    if isinstance(result, dict):
        return flat(list(result.values()))
    assert isinstance(result, list | tuple)
    return [array for child in result for array in flat(child)]
