"""Metal's vector types: how they are built, reached into, converted, compared and laid out."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import compile as compile_metal
from kernelwright.metal.diagnostic import CompileError

Probe = Callable[..., dict[str, Array]]

EXPRESSIONS = [
    ("float4(1, 2, 3, 4)", [1, 2, 3, 4]),
    ("float4(float2(1, 2), 3, 4u)", [1, 2, 3, 4]),
    ("float4(1, float2(2, 3), 4.0h)", [1, 2, 3, 4]),
    ("float4(1, float3(2, 3, 4))", [1, 2, 3, 4]),
    ("float4(7)", [7, 7, 7, 7]),
    ("float4(half4(0.1h))", [0.0999755859375] * 4),
    ("(float4)int4(-1, 2, -3, 4)", [-1, 2, -3, 4]),
    ("float4(int4(float4(1.9, -1.9, 2.5, 0)))", [1, -1, 2, 0]),
    ("float4(bool4(true, false, 2, 0))", [1, 0, 1, 0]),
    ("float4(bool4(float4(0, 0.5, -1, 0)))", [0, 1, 1, 0]),
    ("float4(bfloat4(float4(1, 2, 3, 1.00390625)))", [1, 2, 3, 1]),
    ("vec<float, 4>(vec<uint, 4>(4294967295u, 0, 1, 2))", [4294967296, 0, 1, 2]),
    ("float4{v.y, 2}", [2, 2, 0, 0]),
    ("float4{v.y}", [2, 0, 0, 0]),
    ("pair{{1, v.w}, {3}}.both()", [1, 4, 3, 0]),
    ("table[2]", [9, 8, 0, 0]),
    ("v.wzyx", [4, 3, 2, 1]),
    ("v.xxyy", [1, 1, 2, 2]),
    ("float4(v.rgb, v.a)", [1, 2, 3, 4]),
    ("float4(v.zw, v.xy.yx)", [3, 4, 2, 1]),
    ("float4(v.abgr.x, v[1], v.zyx.z, v.bb.y)", [4, 2, 1, 3]),
    ("v * 2 + 1", [3, 5, 7, 9]),
    ("1 - v", [0, -1, -2, -3]),
    ("-v / v.y", [-0.5, -1, -1.5, -2]),
    ("float4(v < 3)", [1, 1, 0, 0]),
    ("float4(v == v.wyzx)", [0, 1, 1, 0]),
    ("float4(!(v >= 2.0f))", [1, 0, 0, 0]),
    ("float4((v > 1) && (v < 4))", [0, 1, 1, 0]),
    ("float4((v > 3) || (v < 2))", [1, 0, 0, 1]),
    ("float4((int4(v) << 2) % 3)", [1, 2, 0, 1]),
    ("float4(~uint4(v) & 0xffu)", [254, 253, 252, 251]),
    ("float4((uint4(v) ^ 1u) | 8u)", [8, 11, 10, 13]),
    ("float4(char4(int4(127, 128, -129, 255)))", [127, -128, 127, -1]),
    ("as_type<float4>(as_type<uint4>(v))", [1, 2, 3, 4]),
    ("float4(as_type<uchar4>(0x04030201u))", [1, 2, 3, 4]),
    ("float4(as_type<half2>(0x3c004000u), as_type<short2>(0x00020001))", [2, 1, 1, 2]),
    ("true ? v : float4(0)", [1, 2, 3, 4]),
    ("i < 9 ? x[0] : 0", [1, 2, 3, 4]),
    ("i < 9 ? 0 : x[0]", [0, 0, 0, 0]),
    ("float4(packed_float3(v.xyz), 9)", [1, 2, 3, 9]),
    ("float4(packed_float3(1, 2, 3) * 2.0f, 0)", [2, 4, 6, 0]),
    ("table[1]", [5, 6, 7, 8]),
    ("table[0].wzyx", [4, 3, 2, 1]),
]


def test_expressions_mean_what_metal_says(probe: Probe) -> None:
    body = "float4 v = x[0];\n" + "\n".join(
        f"y[{row}] = {text};" for row, (text, _) in enumerate(EXPRESSIONS)
    )
    found = probe(
        body,
        header=(
            "constant float4 table[3] = {{1, 2, 3, 4}, float4(5, 6, 7, 8), {9, 8}};\n"
            "struct pair { float2 a; half2 b; float4 both() { return {a.x, a.y, b.x, b.y}; } };"
        ),
        inputs={"x": np.array([1, 2, 3, 4], np.float32)},
        outputs={"y": np.zeros((len(EXPRESSIONS), 4), np.float32)},
        types={"x": "float4", "y": "float4"},
        threads=1,
    )["y"]
    for row, (text, expected) in enumerate(EXPRESSIONS):
        np.testing.assert_array_equal(found[row], np.array(expected, np.float32), err_msg=text)


def test_swizzles_are_computed_with_in_templates_beside_other_operators(probe: Probe) -> None:
    header = """
struct pair { float xy; };
pair operator+=(thread pair& a, pair b) { a.xy += b.xy; return a; }
template <typename T, typename P> T changed(device T* x, T w, P p) {
  T v = x[0];
  v.xyz += w.zwx;
  (&v)->wz *= w.xy;
  v.rgb -= p;
  x[0].yw /= T(4).xx;
  return v;
}
"""
    found = probe(
        "y[0] = changed(x, x[0] + 4, packed_float3(1, 2, 3)); y[1] = x[0];",
        header=header,
        inputs={},
        outputs={
            "x": np.array([[1, 2, 3, 4]], np.float32),
            "y": np.zeros((2, 4), np.float32),
        },
        types={"x": "float4", "y": "float4"},
        threads=1,
    )["y"]
    np.testing.assert_array_equal(found, [[7, 8, 45, 20], [1, 0.5, 3, 1]])


def test_every_swizzle_reads_the_letters_it_names(probe: Probe) -> None:
    letters = "xyzw"
    words = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    colours = str.maketrans("xyzw", "rgba")
    body = "float4 v = x[0];\n" + "\n".join(
        f"y[{i}] = v.{w if i % 2 else w.translate(colours)};" for i, w in enumerate(words)
    )
    found = probe(
        body,
        inputs={"x": np.array([0, 1, 2, 3], np.float32)},
        outputs={"y": np.zeros((256, 4), np.float32)},
        types={"x": "float4", "y": "float4"},
        threads=1,
    )["y"]
    expected = [[letters.index(c) for c in w] for w in words]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_swizzles_and_elements_are_written_in_every_address_space(probe: Probe) -> None:
    body = """
    threadgroup float4 shared[2];
    float4 v = float4(0);
    v.yx = float2(1, 2); v.w += 5; v[2] = 7; v.z++; v.xyz *= 2;
    shared[0] = v; shared[0].zw = v.xy; shared[1].x = shared[0].w;
    y[0] = shared[0]; y[1] = 0; y[1].y = shared[1].x; y[1].zw -= 1; y[1][0] = 3;
    y[2] = v; y[2] += 1; y[2].xy /= 2; half4 h = half4(v); h *= 0.5h; y[3] = float4(h++);
    """
    found = probe(
        body,
        inputs={},
        outputs={"y": np.zeros((4, 4), np.float32)},
        types={"y": "float4"},
        threads=1,
    )["y"]
    v = [4, 2, 16, 5]
    expected = [[4, 2, 4, 2], [3, 2, -1, -1], [2.5, 1.5, 17, 6], [x / 2 for x in v]]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


LAYOUT = [
    ("char", 1),
    ("uchar", 1),
    ("bool", 1),
    ("short", 2),
    ("ushort", 2),
    ("half", 2),
    ("bfloat", 2),
    ("int", 4),
    ("uint", 4),
    ("float", 4),
    ("long", 8),
    ("ulong", 8),
]


def test_sizes_and_alignments_are_metals(probe: Probe) -> None:
    rows = []
    expected = []
    for name, size in LAYOUT:
        for n, wide in ((2, 2), (3, 4), (4, 4)):
            rows += [f"sizeof({name}{n})", f"alignof({name}{n})"]
            expected += [size * wide, size * wide]
            rows += [f"sizeof(packed_{name}{n})", f"alignof(packed_{name}{n})"]
            expected += [size * n, size]
    for c, r, size, align in [(2, 2, 16, 8), (3, 3, 48, 16), (4, 3, 64, 16), (2, 4, 32, 16)]:
        rows += [f"sizeof(float{c}x{r})", f"alignof(float{c}x{r})", f"sizeof(half{c}x{r})"]
        expected += [size, align, size // 2]
    body = "\n".join(f"y[{i}] = {text};" for i, text in enumerate(rows))
    found = probe(body, inputs={}, outputs={"y": np.zeros(len(rows), np.uint32)}, threads=1)["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_small_floats_round_after_every_operation(probe: Probe, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(2)
    x, y, z = (rng.uniform(-300, 300, 512).astype(dtype) for _ in range(3))
    found = probe(
        "o[4 * i] = x[i] * y[i] - z[i]; o[4 * i + 1] = x[i] / y[i] + z[i]; "
        "o[4 * i + 2] = (x[i] + y[i]) + z[i]; o[4 * i + 3] = -x[i];",
        inputs={"x": x, "y": y, "z": z},
        outputs={"o": np.zeros((512, 4), dtype)},
        threads=512,
    )["o"]
    with np.errstate(over="ignore"):
        expected = np.stack([x * y - z, x / y + z, (x + y) + z, -x], axis=1)
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


def test_float_becomes_bfloat_as_numpy_rounds(probe: Probe) -> None:
    bits = np.random.default_rng(4).integers(0, 2**32, 4096, dtype=np.uint32)
    special = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x80000001, 0x7F800000], np.uint32)
    x = np.concatenate([bits, special]).view(np.float32)
    found = probe(
        "y[i] = bfloat(x[i]); z[i] = bfloat4(float4(x[i])).z;",
        inputs={"x": x},
        outputs={name: np.zeros(x.size, ml_dtypes.bfloat16) for name in ("y", "z")},
        threads=x.size,
    )
    ordinary = ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    for result in found.values():
        np.testing.assert_array_equal(
            result.view(np.uint16)[ordinary], expected.view(np.uint16)[ordinary]
        )
        assert np.isnan(result[~ordinary].astype(np.float32)).all()


REFUSED = [
    ("bfloat b = f;", "bfloat"),
    ("half h = 1.0h; bfloat b = h;", "bfloat"),
    ("bfloat b = 1.0bf; half h = b;", "half"),
    ("float4 v = half4(1.0h);", "half"),
    ("float4 v = float4(float2(1), f);", "float4"),
    ("float4 v = float3(1);", "float"),
    ("float2 v = {f, 1, f}; y[1] = v.y;", "excess elements in vector initializer"),
    ("float2 v = float2(1); v.xx = float2(0);", "duplicate components"),
    ("float2 v = float2(1); v.z = 0;", "no member named 'z'"),
    ("uint4 v = float4(1) < 2.0f;", "bool"),
    ("float4 v = float4(1) + float3(1);", "operand"),
    ("float4 v = float4(1) % 2;", "operand"),
    ("float m = max(1.0h, f);", "ambiguous"),
    ("uint m = max(1u, 1);", "ambiguous"),
    ("float4 v = as_type<float4>(f);", "as_type"),
    ("long s = simd_sum(1l);", "no matching function"),
]


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_what_metal_refuses_is_refused(statement: str, message: str) -> None:
    source = (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        f"kernel void f(device float* y [[buffer(0)]]) {{ float f = y[0];\n{statement} }}"
    )
    with pytest.raises(CompileError, match=message):
        compile_metal(source)
