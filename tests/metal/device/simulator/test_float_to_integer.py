"""A float that becomes an integer has one value, wherever and in whichever build it does."""

import numpy as np
import pytest

from kernelwright.metal import simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_TYPES: dict[str, type[np.integer]] = {
    "int": np.int32,
    "uint": np.uint32,
    "short": np.int16,
    "ushort": np.uint16,
    "char": np.int8,
    "uchar": np.uint8,
    "long": np.int64,
    "ulong": np.uint64,
}
_VALUES = np.array(
    [1e10, -1e10, np.nan, np.inf, -np.inf, -1, 300.75, -200.75, 3e9, 70000, 1e20], np.float32
)


def _saturated(dtype: type[np.integer]) -> np.ndarray:
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    whole = [
        0 if v != v else (most if v > 0 else least) if np.isinf(v) else int(v)
        for v in map(float, _VALUES)
    ]
    return np.array([min(max(v, least), most) for v in whole], dtype)


@pytest.mark.parametrize("build", ["plain", "sanitize", "count", "ordered"])
@pytest.mark.parametrize("form", ["{t}(x[i])", "x[i]", "{t}4(float4(x[i])).z"])
@pytest.mark.parametrize("type_", _TYPES)
@pytest.mark.sampled(32)
def test_a_float_beyond_an_integers_range_is_its_nearest(type_: str, form: str, build: str) -> None:
    count = len(_VALUES) * (3000 if build == "plain" else 3)
    x, o = np.resize(_VALUES, count), np.zeros(count, _TYPES[type_])
    text = f"kernel void k(device const float* x, device {type_}* o,\n"
    text += f"  uint i [[thread_position_in_grid]]) {{ o[i] = {form.format(t=type_)}; }}\n"
    simulator.compile(_HEAD + text).kernel("k").launch(
        [x, o],
        grid=(count, 1, 1),
        threadgroup=(32, 1, 1),
        sanitize=build == "sanitize",
        count=build == "count",
        order_seed=5 if build == "ordered" else 0,
    )
    assert (o == np.resize(_saturated(_TYPES[type_]), count)).all()


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("int(1e10f)", 2**31 - 1),
        ("int(NAN)", 0),
        ("uint(-1.0f)", 0),
        ("uchar(300.0f)", 255),
        ("int(-INFINITY)", -(2**31)),
        ("int(half(70000.0f))", 2**31 - 1),
        ("int3(float3(1e20f)).y", 2**31 - 1),
    ],
)
def test_so_does_a_constant(expression: str, value: int, sanitize: bool) -> None:
    text = f"kernel void k(device int* o) {{ o[0] = {expression}; }}\n"
    o = np.full(1, 77, np.int32)
    simulator.compile(_HEAD + text).kernel("k").launch(
        [o], grid=(1, 1, 1), threadgroup=(1, 1, 1), sanitize=sanitize
    )
    assert o[0] == value
