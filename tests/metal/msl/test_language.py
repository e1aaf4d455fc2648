"""A text may use what its version of the language has, and __METAL_VERSION__ says which."""

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.msl.language import LanguageVersion, language_of, macos_of
from kernelwright.metal.msl.refuse import least_language, refuse
from kernelwright.metal.msl.rewrite import rewrite

LAMBDA = "void f() { auto g = [](float x) { return x; }; }"


@pytest.mark.parametrize(
    ("text", "since", "column"),
    [
        (LAMBDA, "4.0", 21),
        ("void f(device coherent(device) float* x) {}", "3.2", 15),
        ("#include <metal_logging>", "3.2", 10),
        ("#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>", "4.0", 10),
        ("void f() { metal::atomic_thread_fence(metal::mem_flags::mem_device); }", "3.2", 19),
    ],
)
def test_a_feature_needs_its_version(text: str, since: LanguageVersion, column: int) -> None:
    before: dict[LanguageVersion, LanguageVersion] = {"3.2": "3.1", "4.0": "3.2"}
    [found] = refuse(rewrite(text), before[since])
    assert found.column == column
    assert f"not supported in Metal {before[since]}; Metal {since} brought it" in found.message
    assert refuse(rewrite(text), since) == ()


@pytest.mark.parametrize("text", ["struct os_log {}; os_log a();", "void f() { a.thread_scope; }"])
def test_own_names_are_no_features(text: str) -> None:
    assert all("brought" not in d.message for d in refuse(rewrite(text), "3.1"))


@pytest.mark.parametrize(("macos", "version"), [(14, 310), (15, 320), (26, 400), (27, 410)])
def test_the_version_is_the_one_of_the_system(macos: int, version: int) -> None:
    text = (
        "#include <metal_stdlib>\nkernel void k(device int* y [[buffer(0)]]) "
        "{ y[0] = __METAL_VERSION__; }"
    )
    y = np.zeros(1, np.int32)
    library = simulator.compile(text, language=language_of(macos))
    library.kernel("k").launch({"y": y}, grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y[0] == version


def test_a_lambda_is_refused_before_metal_4() -> None:
    with pytest.raises(CompileError, match=r"lambda expressions are not supported in Metal 3\.2"):
        simulator.compile(LAMBDA, language="3.2")


def test_a_float_in_threadgroup_memory_is_added_to_from_metal_4_1() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  threadgroup atomic_float sum;
  if (i == 0) atomic_store_explicit(&sum, 0.5f, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&sum, 2.0f, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = atomic_load_explicit(&sum, memory_order_relaxed);
}"""
    with pytest.raises(CompileError, match=r"not supported in Metal 3\.2; Metal 4\.1 brought it"):
        simulator.compile(text, language="3.2")
    y = np.zeros(8, np.float32)
    library = simulator.compile(text, language="4.1")
    library.kernel("k").launch({"y": y}, grid=(8, 1, 1), threadgroup=(8, 1, 1))
    assert set(y) == {16.5}


def test_an_older_macos_is_refused() -> None:
    with pytest.raises(InputError, match="macOS 14 and later"):
        language_of(13)


@pytest.mark.parametrize(
    ("body", "language", "macos"),
    [
        ("y[0] = x[0];", "3.1", 14),
        ("auto g = [](float x) { return x; }; y[0] = g(x[0]);", "4.0", 26),
        ("metal::atomic_thread_fence(metal::mem_flags::mem_device);", "3.2", 15),
    ],
)
def test_a_kernel_needs_the_least_version_that_has_all_it_uses(
    body: str, language: LanguageVersion, macos: int
) -> None:
    assert least_language([("", "y[1] = x[1];"), ("", body)]) == language
    assert macos_of(language) == macos
