"""Metal text compiles, and what does not is told at the candidate's own line."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelwright import metal
from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator import toolchain
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.compiler import (
    LIBRARIES_PER_FOLDER,
    _prune,
    compile_unit,
)
from kernelwright.metal.device.simulator.toolchain import Variant
from kernelwright.metal.device.simulator.unit import Section, prepare
from kernelwright.metal.diagnostic import Diagnostic, Severity

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def errors(text: str, header: str = "") -> list[Diagnostic]:
    with pytest.raises(metal.CompileError, match="error") as refused:
        metal.simulator.compile(text, header)
    return [d for d in refused.value.diagnostics if d.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("y[i] = 1.0 + undeclared;", 14, "use of undeclared identifier 'undeclared'"),
        ("threadgroup float a[4]; a[0] = b;", 32, "use of undeclared identifier 'b'"),
        ("y[i] = x[i] > 1.0 ? 2.0 : b;", 27, "use of undeclared identifier 'b'"),
        ("threadgroup float* p = y;", 20,
         ("cannot initialize a variable of type 'threadgroup float *' with an lvalue of type "
         "'device float *'")),
        ("const device float* p = c;", 21,
         ("cannot initialize a variable of type 'const device float *' with an lvalue of type "
         "'constant float *'")),
        ("auto p = (const constant float*)x;", 10,
         ("C-style cast from 'const device float *' to 'constant float *' converts between "
         "mismatching address spaces")),
        ("x[i] = 1;", 6, "read-only variable is not assignable"),
        ("bfloat b = 1.0; y[i] = float(b);", 8,
         "cannot initialize a variable of type 'bfloat' with an rvalue of type 'float'"),
        ("simdgroup_float8x8 m; simdgroup_multiply_accumulate(m, m, m);", 23,
         "no matching function for call to 'simdgroup_multiply_accumulate'"),
        ("y[i] = i.x", 9, ("member reference base type 'uint' (aka 'unsigned int') is not a "
         "structure or union")),
        ("double d = 1;", 1, "'double' is not supported in Metal"),
        ("uint n = i; float a[n]; a[0] = 1;", 21,
         "variable length arrays are not supported in Metal"),
        ("uint n = 4; threadgroup float a[n]; a[0] = 1;", 33,
         "variable length arrays are not supported in Metal"),
        ("threadgroup float a[4] = {0}; y[i] = a[0];", 19,
         "variables in threadgroup memory cannot be initialized"),
    ],
)  # fmt: skip
def test_errors_point_at_the_candidates_own_text(line: str, column: int, message: str) -> None:
    text = (
        f"{HEAD}kernel void f(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],\n"
        "    constant float* c [[buffer(2)]], uint i [[thread_position_in_grid]]) {\n"
        f"{line}\n}}\n"
    )
    found = errors(text)[0]
    assert (found.file, found.line, found.column) == ("source", 5, column)
    assert found.message == message
    assert found.source_line == line


def test_an_error_in_the_header_names_the_header() -> None:
    found = errors("kernel void f() {}", "// one\nconstant float a = b;")[0]
    assert (found.file, found.line, found.column) == ("header", 2, 20)


def test_an_error_in_an_included_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "sums.h").write_text("inline float twice(float x) {\n  return x * 2.0 + y;\n}\n")
    text = f'{HEAD}#include "sums.h"\nkernel void f() {{}}'
    with pytest.raises(metal.CompileError, match="undeclared identifier 'y'") as refused:
        metal.simulator.compile(text, folders=(tmp_path,))
    [found] = refused.value.diagnostics
    assert (found.file, found.line, found.column) == (str(tmp_path / "sums.h"), 2, 20)
    assert found.source_line == "  return x * 2.0 + y;"


def test_an_error_inside_the_standard_library_moves_to_the_line_that_led_there() -> None:
    text = (
        f"{HEAD}template <typename T> float f(T x) {{\n  return as_type<float>(x);\n}}\n"
        "kernel void g(device float* y [[buffer(0)]]) {\n  y[0] = f(half(1));\n}\n"
    )
    found = errors(text)[0]
    assert found.file == "source"
    assert found.line in (4, 7)


def test_every_spelling_of_a_kernel_becomes_an_entry() -> None:
    library = metal.simulator.compile(
        f"{HEAD}kernel void a() {{}}\n[[kernel]] void b() {{}}\n"
        '[[host_name("see")]] [[kernel]] void c() {}\n'
        "template <typename T, int N> kernel void d(device T* y [[buffer(0)]]) { y[0] = N; }\n"
        'template [[host_name("d_4")]] kernel decltype(d<float, 4>) d<float, 4>;\n'
        'template [[host_name("d_5")]] kernel void d<half, 5>(device half*);\n'
        "#define make(type) \\\n"
        '  template [[host_name("d_" #type)]] [[kernel]] decltype(d<type, 1>) d<type, 1>;\n'
        "make(int)\nmake(uint)\n"
        "namespace inner { kernel void e() {} }\n"
        "template <> kernel void d<char, 1>(device char* y [[buffer(0)]]) { y[0] = 2; }\n"
        "make(char)\n"
        "#define AT [[thread_position_in_grid]]\n"
        "kernel void g(device int* y [[buffer(0)]], uint i AT) { y[i] = i; }\n"
    )
    assert set(library.kernels) == {
        *("a", "b", "see", "d_4", "d_5", "d_int", "d_uint", "e", "d_char", "g"),
    }


MACRO_KERNELS = """#include <metal_stdlib>
using namespace metal;
#define UNARY(NAME, TYPE, FUNCTION) \\
  kernel void NAME##_##TYPE(device const TYPE* x [[buffer(0)]], device TYPE* y [[buffer(1)]], \\
                            uint i [[thread_position_in_grid]]) { \\
    threadgroup TYPE one[1]; \\
    one[0] = 1.0; \\
    y[i] = FUNCTION(x[i]) + one[0]; \\
  }

UNARY(negate, float, -)
UNARY(root, half, sqrt)
"""


def test_two_kernels_of_one_name_are_told_by_it() -> None:
    text = f"{HEAD}kernel void f(device int* y) {{}}\nkernel void f(device float* y) {{}}\n"
    assert errors(text)[0].message == "redefinition of 'f'"


def test_kernels_that_macros_define_are_found() -> None:
    library = metal.simulator.compile(MACRO_KERNELS)
    assert set(library.kernels) == {"negate_float", "root_half"}
    x, y = np.array([1, 4], np.float32), np.zeros(2, np.float32)
    library.kernel("negate_float").launch([x, y], grid=(2, 1, 1), threadgroup=(2, 1, 1))
    assert y.tolist() == [0, -3]


@pytest.mark.parametrize("marker", ['#line 90 "shader.slang"', '# 7 "shader.i" 2', " # line 3"])
def test_lines_count_as_they_stand_whatever_a_generator_wrote(marker: str) -> None:
    text = f"{HEAD}{marker}\nkernel void k(device float* y) {{\n  y[0] = nothing;\n}}\n"
    (error,) = errors(text)
    assert (error.file, error.line, error.column) == ("source", 5, 10)
    assert error.source_line == "  y[0] = nothing;"


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    assert metal.simulator.compile(f"\ufeff{HEAD}kernel void k(device float* y) {{ y[0] = 1; }}")


def test_errors_after_macro_kernels_keep_their_line() -> None:
    found = errors(f"{MACRO_KERNELS}\ninline float f() {{\n  return undeclared;\n}}\n")[0]
    assert (found.file, found.line, found.column) == ("source", 15, 10)
    assert found.source_line == "  return undeclared;"


def test_the_same_text_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = prepare([Section("source", f"{HEAD}kernel void once() {{}}")], prelude="metal")
    first = compile_unit(unit, "plain")

    def refuse_to_run(*_: object, **__: object) -> tuple[int, str]:
        raise AssertionError("the compiler ran again")

    monkeypatch.setattr("kernelwright.metal.device.simulator.build_command.run", refuse_to_run)
    assert compile_unit(unit, "plain") == first


def test_the_oldest_libraries_make_room(tmp_path: Path) -> None:
    for age in range(LIBRARIES_PER_FOLDER + 2):
        for suffix in (".so", ".json"):
            (tmp_path / f"{age}{suffix}").write_text("")
            os.utime(tmp_path / f"{age}{suffix}", (1000 - age, 1000 - age))
    _prune(tmp_path)
    left = {path.stem for path in tmp_path.iterdir()}
    assert left == {str(age) for age in range(LIBRARIES_PER_FOLDER)}


def test_what_mlx_generates_finds_mlx_s_prelude() -> None:
    text = (
        "[[kernel]] void custom_kernel_f(device bfloat16_t* y [[buffer(0)]],\n"
        "    uint3 thread_position_in_grid [[thread_position_in_grid]]) {\n"
        "  y[thread_position_in_grid.x] = bfloat16_t(Limits<float>::max);\n}\n"
    )
    assert metal.simulator.compile(text).kernels == ("custom_kernel_f",)


def test_a_missing_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.compiler_path.cache_clear()
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(
        DeviceError, match=r"'ziglang', which is not installed.*kernelwright\[search\]"
    ):
        toolchain.compiler_path()


def test_a_cache_that_cannot_be_written_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match="cannot be written"):
        metal.simulator.compile(f"{HEAD}kernel void never_cached() {{}}")


@pytest.mark.parametrize(
    ("machine", "system", "target"),
    [
        ("x86_64", "linux", "--target=x86_64-unknown-linux-gnu"),
        ("aarch64", "linux", "--target=aarch64-unknown-linux-gnu"),
        ("arm64", "darwin", "--target=aarch64-apple-macos13"),
    ],
)
def test_targets_follow_the_machine(machine: str, system: str, target: str) -> None:
    assert toolchain.target_flags(machine, system)[0] == target


def test_an_unknown_processor_is_one_sentence() -> None:
    with pytest.raises(DeviceError, match="x86-64 and arm64 processors, found 'riscv64'"):
        toolchain.target_flags("riscv64", "linux")


_MIXED = """
#include <metal_stdlib>
using namespace metal;

float total(float v) { return simd_sum(v); }

kernel void scaled(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] *= 2;
}

kernel void centred(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] -= total(x[i]);
}

template <typename T, bool waits>
kernel void maybe(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (waits) threadgroup_barrier(mem_flags::mem_device);
  x[i] = T(i);
}
template [[host_name("waits")]] kernel void maybe<float, true>(device float*, uint);
template [[host_name("never")]] kernel void maybe<float, false>(device float*, uint);
"""


@pytest.mark.parametrize("variant", ["plain", "sanitize", "count"])
def test_each_entry_tells_whether_its_threads_wait(variant: Variant) -> None:
    image = metal.simulator.compile(_MIXED, variant=variant).image(variant)

    waits = {e.name: image.code(e).waits for e in image.entries}
    assert waits == {"scaled": False, "centred": True, "waits": True, "never": False}


def test_only_kernels_that_never_wait_run_in_rows() -> None:
    image = metal.simulator.compile(_MIXED).image("plain")

    assert b"kw_row:scaled:scaled\0" in image.path.read_bytes()
    assert b"kw_row:centred" not in image.path.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the clock on the wall decides")
def test_the_compiler_is_stopped_by_the_processor_time_that_it_has_had(tmp_path: Path) -> None:
    source = tmp_path / "endless.cpp"
    source.write_text(
        "constexpr long f() { long s = 0; for (long i = 0; i < 1L << 40; i++) s += i; return s; }"
        "constexpr long x = f();"
    )
    command = ["clang", "-std=c++23", "-fconstexpr-steps=4294967295", "-fsyntax-only", str(source)]

    status, _ = toolchain.run(command, timeout_s=1)

    assert status == toolchain.TIMED_OUT


@pytest.mark.parametrize("variant", ["plain", "sanitize", "count", "wide", "vet"])
def test_what_the_runtime_has_compiled_is_not_compiled_again(variant: Variant) -> None:
    text = """kernel void combined(device float* x [[buffer(0)]],
                     uint i [[thread_position_in_grid]]) {
  x[i] = OPERATION(x[i]);
}"""
    built, own = (
        metal.simulator.compile(HEAD + text.replace("OPERATION", name), variant=variant)
        .image(variant)
        .path.read_bytes()
        for name in ("simd_sum", "simd_product")
    )
    dense = "dense_" if variant in ("wide", "vet") else ""
    assert f"kw_prebuilt_{dense}sum_of_float".encode() in built
    assert b"kw_reduce" not in built
    assert b"kw_reduce" in own


def test_the_runtime_has_every_combine_function_that_the_headers_name() -> None:
    table = (toolchain.INCLUDE / "kw" / "prebuilt.h").read_text()
    names = re.findall(r"^KW_PREBUILT\((\w+)", table, re.MULTILINE)
    assert len(names) >= 40
    runtime = load_runtime()
    assert all(hasattr(runtime, f"kw_prebuilt_{d}{n}") for n in names for d in ("", "dense_"))
