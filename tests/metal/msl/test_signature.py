"""A kernel's parameters become records with their binding."""

import pytest

from kernelwright.metal.msl.rewrite import rewrite
from kernelwright.metal.msl.signature import Parameter


def parameters(signature: str, before: str = "") -> tuple[Parameter, ...]:
    return rewrite(f"{before}kernel void f({signature}) {{}}").kernels["f"]


def test_buffers_come_before_threadgroup_memory_in_the_slots() -> None:
    found = parameters(
        "threadgroup float* t [[threadgroup(0)]], constant uint& n [[buffer(3)]], "
        "device atomic<int>* o [[buffer(1)]], uint i [[thread_index_in_simdgroup]]"
    )
    assert [(p.name, p.kind, p.index, p.slot) for p in found] == [
        ("t", "threadgroup", 0, 2),
        ("n", "buffer", 3, 0),
        ("o", "buffer", 1, 1),
        ("i", "attribute", -1, -1),
    ]
    assert [p.type for p in found] == ["float", "uint", "atomic<int>", "uint"]
    assert [p.is_const for p in found[:3]] == [False, True, False]


def test_missing_indices_are_the_lowest_free_ones() -> None:
    found = parameters("device float* a, device float* b [[buffer(0)]], constant int& c")
    assert [p.index for p in found] == [1, 0, 2]


@pytest.mark.parametrize(
    ("index", "value"), [("2", 2), ("N", 3), ("N + 1", 4), ("7u", 7), ("2*N", 6)]
)
def test_an_index_may_be_launch_arithmetic_over_macros(index: str, value: int) -> None:
    [found] = parameters(f"device float* a [[buffer({index})]]", "#define N 3\n")
    assert found.index == value


@pytest.mark.parametrize(
    ("text", "name", "type_"),
    [
        ("const device metal::vec<T, 4>* x [[buffer(0)]]", "x", "metal::vec<T,4>"),
        ("device const packed_float3 *x [[ buffer(0) ]]", "x", "packed_float3"),
        ("const constant int64_t* s_strides [[buffer(2)]]", "s_strides", "int64_t"),
        ("constant unsigned int& n [[buffer(0), function_constant(c)]]", "n", "unsigned int"),
        ("device float*", "", "float"),
    ],
)
def test_types_and_names_are_told_apart(text: str, name: str, type_: str) -> None:
    [found] = parameters(text)
    assert (found.name, found.type) == (name, type_)


def test_several_attributes_in_one_list_are_read() -> None:
    [found] = parameters("constant int& n [[buffer(4), function_constant(has_n)]]")
    assert (found.index, found.constant) == (4, "has_n")
