"""Metal's floating-point functions against NumPy and SciPy in float64."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from kernelwright.metal.device.executable import Array

Probe = Callable[..., dict[str, Array]]
Float64 = NDArray[np.float64]

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 0.99999994)


_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


def _samples(dtype: type[np.float32 | np.float16]) -> Array:
    rng = np.random.default_rng(7)
    limit = 38 if dtype is np.float32 else 4
    magnitudes = 10.0 ** rng.uniform(-limit, limit, 120) * rng.choice([-1.0, 1.0], 120)
    with np.errstate(over="ignore"):
        near = np.concatenate([rng.uniform(-10, 10, 120), rng.uniform(-1, 1, 120)])
        return np.concatenate([magnitudes, near, SPECIAL]).astype(dtype)


def _fract(x: Float64) -> Float64:
    return np.where(np.isinf(x), 0.0, np.minimum(x - np.floor(x), _BELOW_ONE))


def _tanpi(x: Float64) -> Float64:
    turn = x - np.rint(x)
    pole = np.abs(turn) == 0.5
    return np.where(pole, np.copysign(np.inf, turn), scipy.special.tandg(turn * 180.0))


def _sign(x: Float64) -> Float64:
    return np.where(np.isnan(x), 0.0, np.sign(x))


UNARY: dict[str, Callable[[Float64], Float64]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": lambda x: scipy.special.sindg((0.5 - np.abs(np.fmod(x, 2.0))) * 180.0),
    "exp": np.exp,
    "exp10": lambda x: 10.0**x,
    "exp2": np.exp2,
    "fabs": np.fabs,
    "floor": np.floor,
    "fract": _fract,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "saturate": lambda x: np.clip(np.where(np.isnan(x), 0.0, x), 0.0, 1.0),
    "sign": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": lambda x: scipy.special.sindg(np.fmod(x, 2.0) * 180.0),
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tanpi": _tanpi,
    "trunc": np.trunc,
}
BINARY: dict[str, Callable[[Float64, Float64], Float64]] = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "divide": np.divide,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0)),
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "max": np.fmax,
    "min": np.fmin,
    "pow": np.power,
    "step": lambda edge, x: np.where(x < edge, 0.0, 1.0),
}
TERNARY: dict[str, Callable[[Float64, Float64, Float64], Float64]] = {
    "clamp": lambda x, low, high: np.fmin(np.fmax(x, low), high),
    "fma": lambda x, y, z: x * y + z,
    "fmax3": lambda x, y, z: np.fmax(x, np.fmax(y, z)),
    "fmin3": lambda x, y, z: np.fmin(x, np.fmin(y, z)),
    "median3": lambda x, y, z: np.sort(np.stack([x, y, z]), axis=0)[1],
    "mix": lambda x, y, a: x + (y - x) * a,
}


def _assert_close(found: Array, exact: Float64, ulps: float, name: str) -> None:
    expected = exact.astype(found.dtype)
    ordinary = np.isfinite(expected) & np.isfinite(found)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    scale = np.spacing(np.abs(np.where(ordinary, expected, 1)).astype(found.dtype))
    error = np.abs(found.astype(np.float64) - np.where(ordinary, exact, 0)) / scale
    good = same | (ordinary & (error <= ulps))
    assert good.all(), f"{name}: {found[~good][:5]} but {expected[~good][:5]}"


def _table(probe: Probe, names: list[str], arguments: dict[str, Array], metal: str) -> Array:
    """Return one row of results for each function."""
    dtype, n = next(iter(arguments.values())).dtype, len(next(iter(arguments.values())))
    call = ", ".join(f"{metal}({a}[i])" for a in arguments)
    body = "\n".join(f"y[{row} * {n} + i] = {name}({call});" for row, name in enumerate(names))
    out = {"y": np.zeros((len(names), n), dtype)}
    return probe(body, inputs=arguments, outputs=out, threads=n)["y"]


@pytest.fixture(scope="module", params=[(np.float32, "float"), (np.float16, "half")])
def kind(request: pytest.FixtureRequest) -> tuple[type[np.float32 | np.float16], str]:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_one_argument_agree_to_a_few_ulp(
    probe: Probe, kind: tuple[type[np.float32 | np.float16], str]
) -> None:
    x = _samples(kind[0])
    found = _table(probe, list(UNARY), {"x": x}, kind[1])
    for row, (name, reference) in enumerate(UNARY.items()):
        _assert_close(found[row], reference(x.astype(np.float64)), 4.0, name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_two_arguments_agree_to_a_few_ulp(
    probe: Probe, kind: tuple[type[np.float32 | np.float16], str]
) -> None:
    x = _samples(kind[0])
    y = np.random.default_rng(3).permutation(x)
    found = _table(probe, list(BINARY), {"x": x, "y2": y}, kind[1])
    for row, (name, reference) in enumerate(BINARY.items()):
        _assert_close(found[row], reference(x.astype(np.float64), y.astype(np.float64)), 4.0, name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_three_arguments_agree(
    probe: Probe, kind: tuple[type[np.float32 | np.float16], str]
) -> None:
    rng = np.random.default_rng(5)
    x, y, z = (rng.uniform(-4, 4, 200).astype(kind[0]) for _ in range(3))
    found = _table(probe, list(TERNARY), {"x": x, "y2": y, "z": z}, kind[1])
    for row, (name, reference) in enumerate(TERNARY.items()):
        exact = reference(*(a.astype(np.float64) for a in (x, y, z)))
        ulps = 1.0 if name != "mix" else 64.0
        _assert_close(found[row], exact, ulps, name)


def test_vectors_compute_what_their_elements_do(probe: Probe) -> None:
    x = np.random.default_rng(1).uniform(0.1, 3, (64, 4)).astype(np.float32)
    body = """
    float4 v = x[i];
    y[5 * i] = exp(v); y[5 * i + 1] = float4(sqrt(v.xy), tanh(v.zw));
    y[5 * i + 2] = float4(max(v.xyz, 1.0f), fast::sin(v.w));
    y[5 * i + 3] = float4(float3(half3(precise::log(v.xyz))), 0);
    y[5 * i + 4] = clamp(v, 0.5f, float4(1, 2, 2, 1));
    """
    out = {"y": np.zeros((64, 5, 4), np.float32)}
    y = probe(body, inputs={"x": x}, outputs=out, threads=64, types={"x": "float4", "y": "float4"})
    d = x.astype(np.float64)
    expected = np.zeros((64, 5, 4))
    expected[:, 0] = np.exp(d)
    expected[:, 1] = np.concatenate([np.sqrt(d[:, :2]), np.tanh(d[:, 2:])], axis=1)
    expected[:, 2] = np.concatenate([np.maximum(d[:, :3], 1), np.sin(d[:, 3:])], axis=1)
    expected[:, 3, :3] = np.log(x[:, :3]).astype(np.float16)
    expected[:, 4] = np.clip(x, 0.5, np.array([1, 2, 2, 1]))
    np.testing.assert_allclose(y["y"].astype(np.float64), expected, rtol=1e-6, atol=1e-6)


def test_split_functions_write_through_their_references(probe: Probe) -> None:
    x = np.array([0.0, -2.75, 1e-40, 8.0, -0.3, np.inf], np.float32)
    body = """
    float whole; int exponent; float cosine;
    y[6 * i] = modf(x[i], whole); y[6 * i + 1] = whole;
    y[6 * i + 2] = frexp(x[i], exponent); y[6 * i + 3] = i == 5 ? 0 : exponent;
    y[6 * i + 4] = sincos(x[i], cosine); y[6 * i + 5] = ldexp(x[i], 3);
    """
    out = {"y": np.zeros((6, 6), np.float32)}
    y = probe(body, inputs={"x": x}, outputs=out, threads=6)["y"]
    fraction, whole = np.modf(x)
    mantissa, exponent = np.frexp(x)
    with np.errstate(invalid="ignore"):
        expected = np.stack([fraction, whole, mantissa, exponent, np.sin(x), x * 8], axis=1)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-6)


def test_the_neighbour_of_a_half_is_a_half(probe: Probe) -> None:
    x = np.array([0.0, 1.0, -1.0, 65504.0, -0.0, 0.5, np.nan], np.float16)
    y = np.array([1.0, 2.0, 0.0, np.inf, -1.0, 0.5, 1.0], np.float16)
    out = {"z": np.zeros(7, np.float16)}
    found = probe("z[i] = nextafter(x[i], y[i]);", inputs={"x": x, "y": y}, outputs=out, threads=7)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found["z"], np.nextafter(x, y))
