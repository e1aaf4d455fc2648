"""Metal's integer, relational and packing functions against NumPy and Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelwright.metal.device.executable import Array

Probe = Callable[..., dict[str, Array]]


def _bits(value: int, width: int) -> int:
    return value & ((1 << width) - 1)


def _clamped(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _extract(value: int, offset: int, bits: int, *, width: int, signed: bool) -> int:
    field = (_bits(value, width) >> offset) & ((1 << bits) - 1)
    return field - (1 << bits) if signed and field >> (bits - 1) else field


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_integer_functions_agree_with_pythons_integers(
    probe: Probe, dtype: type[np.signedinteger | np.unsignedinteger]
) -> None:
    limits = np.iinfo(dtype)
    low, high, width, signed = limits.min, limits.max, limits.bits, limits.min < 0
    rng = np.random.default_rng(11)
    edges = np.array([low, high, 0, 1, high - 1, high // 3, low // 2], dtype)
    x = np.concatenate([edges, rng.integers(low, high, 57, dtype, endpoint=True)])
    y = np.concatenate([edges[::-1], rng.integers(low, high, 57, dtype, endpoint=True)])
    z = rng.permutation(x)
    mask = (1 << width) - 1
    functions: dict[str, Callable[[int, int, int], int]] = {
        "abs(a)": lambda a, b, c: abs(a),
        "absdiff(a, b)": lambda a, b, c: abs(a - b),
        "addsat(a, b)": lambda a, b, c: _clamped(a + b, low, high),
        "subsat(a, b)": lambda a, b, c: _clamped(a - b, low, high),
        "hadd(a, b)": lambda a, b, c: (a + b) >> 1,
        "rhadd(a, b)": lambda a, b, c: (a + b + 1) >> 1,
        "mulhi(a, b)": lambda a, b, c: (a * b) >> width,
        "madhi(a, b, c)": lambda a, b, c: ((a * b) >> width) + c,
        "madsat(a, b, c)": lambda a, b, c: _clamped(a * b + c, low, high),
        "max(a, b)": lambda a, b, c: max(a, b),
        "min(a, b)": lambda a, b, c: min(a, b),
        "max3(a, b, c)": lambda a, b, c: max(a, b, c),
        "min3(a, b, c)": lambda a, b, c: min(a, b, c),
        "median3(a, b, c)": lambda a, b, c: sorted((a, b, c))[1],
        "clz(a)": lambda a, b, c: width - _bits(a, width).bit_length(),
        "ctz(a)": lambda a, b, c: (
            (_bits(a, width) & -_bits(a, width)).bit_length() - 1 if a else width
        ),
        "popcount(a)": lambda a, b, c: _bits(a, width).bit_count(),
        "reverse_bits(a)": lambda a, b, c: int(f"{_bits(a, width):0{width}b}"[::-1], 2),
        "rotate(a, b)": lambda a, b, c: (
            (_bits(a, width) << (b % width)) | (_bits(a, width) >> (width - b % width))
        ),
        "extract_bits(a, 2, 5)": lambda a, b, c: _extract(a, 2, 5, width=width, signed=signed),
        "extract_bits(a, 0, 8 * sizeof(a))": lambda a, b, c: a,
        "insert_bits(a, b, 3, 4)": lambda a, b, c: (_bits(a, width) & ~(15 << 3)) | ((b & 15) << 3),
        "insert_bits(a, b, 0, 8 * sizeof(a))": lambda a, b, c: b,
    }
    metal = {"int": "", "uint": "u"}[dtype.__name__.rstrip("0123456789")]
    name = metal + {8: "char", 16: "short", 32: "int", 64: "long"}[width]
    body = f"{name} a = x[i], b = y[i], c = z[i];\n" + "\n".join(
        f"o[{row} * 64 + i] = {text};" for row, text in enumerate(functions)
    )
    found = probe(
        body,
        inputs={"x": x, "y": y, "z": z},
        outputs={"o": np.zeros((len(functions), 64), dtype)},
        threads=64,
    )["o"]
    for row, (text, reference) in enumerate(functions.items()):
        exact = [reference(int(a), int(b), int(c)) & mask for a, b, c in zip(x, y, z, strict=True)]
        expected = np.array(exact, np.uint64).astype(dtype)
        np.testing.assert_array_equal(found[row], expected, err_msg=text)


def test_a_magnitude_has_its_numbers_own_type(probe: Probe) -> None:
    x = np.array([-3, 0, 7, -12], np.int32)
    body = "y[i] = max(abs(x[i]), 5); z[i] = abs(int2(x[i], -x[i])) == int2(abs(x[i]));"
    types = {"x": "int", "y": "int", "z": "bool2"}
    out = {"y": np.zeros(4, np.int32), "z": np.zeros((4, 2), bool)}
    found = probe(body, inputs={"x": x}, outputs=out, types=types, threads=4)
    assert found["y"].tolist() == [5, 5, 7, 12]
    assert found["z"].all()


def test_vectors_of_integers_compute_lane_by_lane(probe: Probe) -> None:
    x = np.random.default_rng(3).integers(-(2**31), 2**31, (32, 4), dtype=np.int32)
    body = """
    int4 v = x[i];
    y[4 * i] = int4(abs(v)); y[4 * i + 1] = clamp(v, -5, 5);
    y[4 * i + 2] = select(v, 7, v > 0); y[4 * i + 3] = int4(popcount(uint4(v)));
    """
    types = {"x": "int4", "y": "int4"}
    out = {"y": np.zeros((32, 4, 4), np.int32)}
    found = probe(body, inputs={"x": x}, outputs=out, types=types, threads=32)["y"]
    expected = np.stack(
        [
            np.abs(x),
            np.clip(x, -5, 5),
            np.where(x > 0, 7, x),
            np.bitwise_count(x.view(np.uint32)).astype(np.int32),
        ],
        axis=1,
    )
    np.testing.assert_array_equal(found, expected)


def test_relational_functions_classify_every_kind_of_number(probe: Probe) -> None:
    x = np.array([0, -0.0, 1.5, -2, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38], np.float32)
    names = [
        "isnan(a)",
        "isinf(a)",
        "isfinite(a)",
        "isnormal(a)",
        "signbit(a)",
        "isordered(a, 1)",
        "isunordered(a, 1.0f)",
        "any(isnan(float2(a, 1)))",
        "all(isfinite(float3(a)))",
    ]
    body = "float a = x[i];\n" + "\n".join(
        f"y[{row} * 10 + i] = {text};" for row, text in enumerate(names)
    )
    out = {"y": np.zeros((len(names), 10), np.bool_)}
    found = probe(body, inputs={"x": x}, outputs=out, threads=10)["y"]
    nan, normal = np.isnan(x), np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).tiny)
    expected = [
        nan,
        np.isinf(x),
        np.isfinite(x),
        normal,
        np.signbit(x),
        ~nan,
        nan,
        nan,
        np.isfinite(x),
    ]
    np.testing.assert_array_equal(found, np.stack(expected))


def test_packing_normalises_and_rounds(probe: Probe) -> None:
    words = np.random.default_rng(9).integers(0, 2**32, 64, dtype=np.uint32)
    body = """
    uint w = x[i];
    y[5 * i] = unpack_unorm4x8_to_float(w); y[5 * i + 1] = unpack_snorm4x8_to_float(w);
    y[5 * i + 2] = float4(unpack_unorm2x16_to_float(w), unpack_snorm2x16_to_float(w));
    y[5 * i + 3] = unpack_unorm10a2_to_float(w);
    y[5 * i + 4] = float4(unpack_unorm565_to_float(ushort(w)), 0);
    z[5 * i] = pack_float_to_unorm4x8(y[5 * i]);
    z[5 * i + 1] = pack_float_to_snorm4x8(y[5 * i + 1]);
    z[5 * i + 2] = pack_float_to_unorm2x16(y[5 * i + 2].xy);
    z[5 * i + 3] = pack_float_to_unorm10a2(y[5 * i + 3]);
    z[5 * i + 4] = pack_float_to_unorm565(y[5 * i + 4].xyz);
    """
    outputs = {"y": np.zeros((64, 5, 4), np.float32), "z": np.zeros((64, 5), np.uint32)}
    found = probe(body, inputs={"x": words}, outputs=outputs, types={"y": "float4"}, threads=64)
    bytes_ = words.view(np.uint8).reshape(64, 4)
    np.testing.assert_allclose(found["y"][:, 0].astype(np.float64), bytes_ / 255, rtol=1e-6)
    signed = np.maximum(bytes_.view(np.int8) / 127, -1)
    np.testing.assert_allclose(found["y"][:, 1].astype(np.float64), signed, rtol=1e-6)
    # -128 and -127 are the same number, which packs as -127.
    again = np.where(bytes_ == 128, 129, bytes_).astype(np.uint8).view(np.uint32).ravel()
    expected = np.stack([words, again, words, words, words & 0xFFFF], axis=1)
    np.testing.assert_array_equal(found["z"], expected)


def test_geometry_agrees_with_numpy(probe: Probe) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.uniform(-2, 2, (2, 40, 4)).astype(np.float32)
    a[:, 3] = b[:, 3] = 0
    body = """
    float3 p = a[i].xyz, q = b[i].xyz;
    y[4 * i] = float4(dot(p, q), length(p), distance(p, q), length_squared(q));
    y[4 * i + 1] = float4(cross(p, q), 0); y[4 * i + 2] = float4(normalize(p), 0);
    y[4 * i + 3] = float4(reflect(p, normalize(q)), 0);
    """
    out = {"y": np.zeros((40, 4, 4), np.float32)}
    types = {"a": "float4", "b": "float4", "y": "float4"}
    found = probe(body, inputs={"a": a, "b": b}, outputs=out, types=types, threads=40)["y"]
    p, q = a[:, :3].astype(np.float64), b[:, :3].astype(np.float64)
    n = q / np.linalg.norm(q, axis=1, keepdims=True)
    expected = np.zeros((40, 4, 4))
    expected[:, 0] = np.stack(
        [(p * q).sum(1), np.linalg.norm(p, axis=1), np.linalg.norm(p - q, axis=1), (q * q).sum(1)],
        1,
    )
    expected[:, 1, :3] = np.cross(p, q)
    expected[:, 2, :3] = p / np.linalg.norm(p, axis=1, keepdims=True)
    expected[:, 3, :3] = p - 2 * (p * n).sum(1, keepdims=True) * n
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-5, atol=2e-6)


def test_matrices_multiply_by_columns(probe: Probe) -> None:
    m = np.random.default_rng(8).uniform(-1, 1, (4, 4)).astype(np.float32)
    body = """
    float4x4 a = float4x4(m[0], m[1], m[2], m[3]);
    float4x4 b = transpose(a) * a + float4x4(2.0f);
    for (int c = 0; c < 4; c++) y[c] = b[c];
    y[4] = a * m[1]; y[5] = m[1] * a; y[6] = float4(determinant(a));
    y[7] = float4(determinant(float3x3(m[0].xyz, m[1].xyz, m[2].xyz)),
                  determinant(float2x2(1, 2, 3, 4)), (a * 2)[3][1], float(half2x2(3.0h)[1].y));
    a[2].x = 9; a[1] += 1; y[8] = a[2]; y[9] = a[1];
    b = transpose(a); b *= a; y[10] = (b == transpose(a) * a) ? 1 : 0;
    """
    types = {"m": "float4", "y": "float4"}
    out = {"y": np.zeros((11, 4), np.float32)}
    found = probe(body, inputs={"m": m}, outputs=out, types=types, threads=1)["y"]
    a = m.T.astype(np.float64)
    expected = np.zeros((11, 4))
    expected[:4] = (a.T @ a + 2 * np.eye(4)).T
    expected[4], expected[5] = a @ m[1], m[1] @ a
    expected[6] = np.linalg.det(a)
    expected[7] = [np.linalg.det(a[:3, :3]), -2, 2 * m[3, 1], 3]
    expected[8] = [9, *m[2, 1:]]
    expected[9] = m[1] + 1
    expected[10] = 1
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-5, atol=1e-6)
