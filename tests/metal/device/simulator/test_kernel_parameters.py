"""Spaces, types and builtins that a kernel's text may have by the letter, and Metal has not."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import CompileError, LaunchError

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
REFUSED = {
    "thread pointer": (
        "kernel void k(thread float* y) { y[0] = 1; }",
        r"invalid type 'thread float \*' for input declaration in a kernel function",
    ),
    "device memory as threadgroup's": (
        "kernel void k(device float* s [[threadgroup(0)]]) { s[0] = 1; }",
        "invalid address space qualification for threadgroup pointee type 'device float'",
    ),
    "matrix of bool": (
        "kernel void k(device float* y) { matrix<bool, 2, 2> a; y[0] = 1; }",
        "elements of a matrix are half or float in Metal",
    ),
    "builtin of the machine": (
        "kernel void k(device float* y) { y[0] = __builtin_setjmp(0); }",
        "__builtin_setjmp",
    ),
    "builtin of memory": (
        "kernel void k(device float* y) { y[0] = *(thread float*)__builtin_alloca(4); }",
        "'__builtin_alloca' is not supported in Metal",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_metal_has_not_is_refused(what: str) -> None:
    text, message = REFUSED[what]
    with pytest.raises(CompileError, match=message):
        simulator.compile(HEAD + text)


def test_hints_are_taken() -> None:
    text = """kernel void k(device float* y, uint i [[thread_position_in_grid]]) {
  if (__builtin_expect(i > 3, 0)) __builtin_unreachable();
  y[i] = 1;
}
"""
    simulator.compile(HEAD + text)


def test_an_array_of_the_other_byte_order_is_named() -> None:
    kernel = simulator.compile(HEAD + "kernel void k(device float* y) { y[0] = 1; }").kernel("k")
    y = np.zeros(4, np.dtype(np.float32).newbyteorder())
    with pytest.raises(LaunchError, match=r"found float32 in the other byte order; pass array\.as"):
        kernel.launch([y], grid=(1, 1, 1), threadgroup=(1, 1, 1))


def test_a_function_constant_without_a_value_names_the_option() -> None:
    text = """constant int scale [[function_constant(3)]];
kernel void k(device float* y) { y[0] = scale; }"""
    kernel = simulator.compile(HEAD + text).kernel("k")
    with pytest.raises(
        LaunchError, match=r"constants=\{3: …\}, on the command line --constant scale="
    ):
        kernel.launch([np.zeros(4, np.float32)], grid=(1, 1, 1), threadgroup=(1, 1, 1))
