"""Explicit instantiations of kernels: what they repeat of the template's parameters is checked."""

import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import CompileError

TEMPLATE = """#include <metal_stdlib>
using namespace metal;
template <typename T, int N = 1>
kernel void k(device T* y [[buffer(0)]], constant const T& a [[buffer(1)]],
              threadgroup T* s [[threadgroup(0)]], constant uint* n [[buffer(2)]],
              const uint i [[thread_position_in_grid]]) { y[i] = a * T(N) + n[0]; }
"""
RIGHT = (
    "k<float>(device float*, constant const float&, threadgroup float*, constant uint*, uint)",
    (
        "k<half, 2>(device half* y [[buffer(0)]], constant half& a [[buffer(1)]], threadgroup "
        "half* s [[threadgroup(0)]], constant uint* n [[buffer(2)]], const uint i "
        "[[thread_position_in_grid]])"
    ),
    "k<F>(device float*, constant const F&, threadgroup F*, constant uint*, uint)",
    "k(device F*, constant const F&, threadgroup F*, constant uint*, uint)",
)
WRONG = {
    "type": "k<float>(device half*, constant float&, threadgroup float*, constant uint*, uint)",
    "one too many": (
        "k<float>(device float*, constant float&, threadgroup float*, constant uint*, uint, uint)"
    ),
    "one too few": "k<float>(device float*, constant float&, threadgroup float*, constant uint*)",
    "const": (
        "k<float>(const device float*, constant float&, threadgroup float*, constant uint*, uint)"
    ),
    "space": "k<float>(device float*, device float&, threadgroup float*, constant uint*, uint)",
}


def compiled(instance: str) -> tuple[str, ...]:
    text = f'using F = float;\ntemplate [[host_name("h")]] kernel void {instance};\n'
    return simulator.compile(TEMPLATE + text).kernels


@pytest.mark.parametrize("instance", RIGHT)
def test_an_instantiation_repeats_the_parameters(instance: str) -> None:
    assert compiled(instance) == ("h",)


@pytest.mark.parametrize("what", WRONG)
def test_an_instantiation_with_other_parameters_is_refused(what: str) -> None:
    with pytest.raises(CompileError, match="explicit instantiation of 'k' does not refer to a"):
        compiled(WRONG[what])
