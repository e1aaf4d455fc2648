"""Static rules: what may stand in a kernel at all."""

import pytest

from kernelwright.evaluator.static.rules import check_kernel
from kernelwright.metal.kernel import Kernel

HONEST_HEADER = """\
#include <metal_simdgroup>
using namespace metal;
#define TILE 4
#define SQUARE(v) ((v) * (v))
#if defined(WIDE)
template <typename T> inline T twice(T v) { return v + v; }
#else
template <typename T> inline T twice(T v) { return T(2) * v; }
#endif
inline float erf(float v) { return metal::tanh(v); }
"""
HONEST_SOURCE = """\
// x_shape in a comment adds no parameter: comments go before the launch.
uint row = thread_position_in_grid.x;
threadgroup float shared[32];
#pragma unroll
for (uint i = 0; i < TILE; ++i) {
  float v = float(x[row * TILE + i]);
  if (v > 0) { shared[i % 32] = SQUARE(v); }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
while (true) { if (row > 0) break; row += 1; }
y[row] = T(twice(shared[0]) * n);
"""


WIDER_HEADER = """\
#pragma mark - what people and models write beside the usual
#ifndef __METAL_VERSION__
#error "this needs Metal"
#endif
#define UNROLL _Pragma("clang loop unroll(full)")
#define BOTH(f, ...) f(__VA_ARGS__)
enum class Mode : uint { sum, mean };
struct alignas(8) Pair { float value; uint place; };
static_assert(sizeof(Pair) == 8, "two words");
static inline __attribute__((always_inline)) float one(float v) { return v; }
[[gnu::always_inline]] inline float mad(float a, float b, float c) { return a * b + c; }
"""
WIDER_SOURCE = """\
float max = 0, min = 0, length = x[0], step = 1;
bool visible = length > 0;
float intersection = visible ? step : max + min;
UNROLL for (int i = 0; i < 4; ++i) intersection += BOTH(mad, one(1.0f), 2.0f, 3.0f);
y[0] = intersection;
"""


def kernel(source: str = HONEST_SOURCE, header: str = "", **changes: object) -> Kernel:
    fields: dict[str, object] = {
        "name": "probe",
        "inputs": ("x",),
        "outputs": ("y",),
        "template": {"T": "float16", "n": 3},
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
    }
    return Kernel.model_validate({**fields, **changes, "source": source, "header": header})


def test_honest_text_breaks_no_rule() -> None:
    assert check_kernel(kernel(HONEST_SOURCE, HONEST_HEADER)) == ()


def test_text_of_wider_metal_breaks_none_either() -> None:
    assert check_kernel(kernel(WIDER_SOURCE, WIDER_HEADER)) == ()


@pytest.mark.parametrize(
    ("source", "rule", "line"),
    [
        ('y[0] = x[0];\n#include "/etc/passwd"', "include", 2),
        ("%:include <metal_stdlib>\ny[0] = x[0];", "include", 1),
        ("#inc\\\nlude <fstream>\ny[0] = 1;", "include", 1),
        ("#pragma GCC poison y\ny[0] = 1;", "pragma", 1),
        ("#line 7\ny[0] = 1;", "directive", 1),
        ("y[0] = 1; }\nkernel void other() {", "brackets", 1),
        ("y[0] = 1; %>\nvoid f() <%", "brackets", 1),
        ("#define END }\ny[0] = 1; END void f() {", "macro", 1),
        ("#if 1\n}\nvoid f() {\n#else\n#endif\ny[0] = 1;", "brackets", 2),
        ("#define float half\ny[0] = x[0];", "redefinition", 1),
        ("#define y x\ny[0] = 1;", "redefinition", 1),
        ("#define T float\ny[0] = 1;", "redefinition", 1),
        ("#define thread_position_in_grid uint3(0)\ny[0] = 1;", "redefinition", 1),
        ("#define max(a, b) (a)\ny[0] = max(x[0], x[1]);", "redefinition", 1),
        ("#define GLUE(a, b) a##b\ny[0] = 1;", "paste", 1),
        ("#define TEXT(a) #a\ny[0] = 1;", "paste", 1),
        ('y[0] = 1;\nasm volatile("nop");', "word", 2),
        ("a\\\nsm(1); y[0] = 1;", "word", 1),
        ("y[0] = __builtin_readcyclecounter();", "word", 1),
        ("extern float leaked; y[0] = leaked;", "word", 1),
        ("y[0] = kw_current()->grid;", "word", 1),
        ("y[0] = 1; goto end; end:;", "word", 1),
        ('[[host_name("other")]] y[0] = 1;', "attribute", 1),
        ('y[0] = 1; const constant char* s = "x_shape";', "string", 1),
        ("typedef half float4; y[0] = 1;", "redefinition", 1),
        ("using half = float; y[0] = 1;", "redefinition", 1),
        ("struct float4 { half v; }; y[0] = 1;", "redefinition", 1),
        ("{ uint3 thread_position_in_grid = uint3(0); y[0] = 1; }", "redefinition", 1),
        ("{ float x = 1; y[0] = x; }", "redefinition", 1),
        ("for (;;) { y[0] += 1; }", "endless", 1),
        ("y[0] = 1;\nwhile (true) {}", "endless", 2),
        ("y[0] = x[0]; /* no end", "comment", 1),
        ("y[0] = \\u0078[0];", "character", 1),
        ('#define HIDE _Pragma("GCC poison y")\ny[0] = 1;', "word", 1),
        ('y[0] = f(1, "text");', "string", 1),
        ("struct alignas(8) float4 { half v; }; y[0] = 1;", "redefinition", 1),
        ("enum class float4 { a }; y[0] = 1;", "redefinition", 1),
    ],
)
def test_a_breach_is_named_with_its_line(source: str, rule: str, line: int) -> None:
    found = check_kernel(kernel(source))
    assert (rule, line) in {(d.rule, d.line) for d in found}
    assert all(d.file == "source" for d in found)


@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ("#include <mlx/ops.h>", "include"),
        ("inline float exp(float v) { return v; }", "redefinition"),
        ("namespace metal { }", "redefinition"),
        ("kernel void second() {}", "word"),
        ("[[visible]] float f() { return 1; }", "attribute"),
        ("#define kw_barrier(a, b)", "redefinition"),
        ("__attribute__((always_inline, constructor)) void f() {}", "word"),
        ("[[gnu::constructor]] void f() {}", "attribute"),
        ("[[nodiscard, gnu::constructor]] int f() { return 1; }", "attribute"),
        ("[[clang::disable_sanitizer_instrumentation]] void f() {}", "attribute"),
        ("[[clang::weak]] void f() {}", "attribute"),
        ("[[clang::sycl_external]] void f() {}", "attribute"),
        ("[[clang]] void f() {}", "attribute"),
        ("inline float f() { return 1;", "brackets"),
    ],
)
def test_a_header_keeps_the_rules_too(header: str, rule: str) -> None:
    assert rule in {d.rule for d in check_kernel(kernel("y[0] = 1;", header))}


@pytest.mark.parametrize("name", ["float", "thread_position_in_grid", "device", "__x", "kw_x"])
def test_an_array_cannot_take_a_name_of_metals(name: str) -> None:
    source = f"y[0] = {name}[0];"
    assert "name" in {d.rule for d in check_kernel(kernel(source, inputs=(name,)))}


def test_a_text_beyond_reason_is_refused_unread() -> None:
    assert [d.rule for d in check_kernel(kernel("y[0]=1;" * 60_000))] == ["length"]
