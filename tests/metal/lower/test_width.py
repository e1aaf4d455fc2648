"""Offsets of arrays beyond 2^32 elements are computed in 64 bits, or refused; by lowering alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.errors import UnsupportedError
from kernelwright.ir import Dtype, Graph, TensorType, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Elementwise, Rowwise, Split

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


@dataclass(frozen=True)
class Unsigned:
    """An unsigned number of C++, which wraps at its width."""

    value: int
    bits: int = 32

    def _with(self, other: "Unsigned | int", result: Callable[[int, int], int]) -> "Unsigned":
        known = other if isinstance(other, Unsigned) else Unsigned(other)
        bits = max(self.bits, known.bits)
        return Unsigned(result(self.value, known.value) % (1 << bits), bits)

    def __add__(self, other: "Unsigned | int") -> "Unsigned":
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: "Unsigned | int") -> "Unsigned":
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: "Unsigned | int") -> "Unsigned":
        return self._with(other, lambda a, b: a * b)

    def __floordiv__(self, other: "Unsigned | int") -> "Unsigned":
        return self._with(other, lambda a, b: a // b)

    def __mod__(self, other: "Unsigned | int") -> "Unsigned":
        return self._with(other, lambda a, b: a % b)


def _value(index: Index, places: dict[str, int]) -> int:
    """Compute the text of an index as C++ would."""
    text = re.sub(r"(\d+)ul\b", r"ulong(U(\1))", index.render().replace("/", "//"))
    names: dict[str, object] = {name: Unsigned(place) for name, place in places.items()}
    names |= {"ulong": lambda u: Unsigned(u.value, 64), "U": lambda n: Unsigned(n, 64)}
    found = eval(text, {}, names)
    return found.value if isinstance(found, Unsigned) else int(found)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.integers(1, 1 << 20), st.integers(1, 1 << 17), st.integers(1, 300), st.integers(0, 1 << 33)
)
def test_an_index_of_any_size_is_what_its_text_computes(
    rows: int, step: int, by: int, offset: int
) -> None:
    row, column = Axis("row", rows), Axis("column", step)
    place = Index.of(row) * step + Index.of(column) + offset
    last = {"row": rows - 1, "column": step - 1}
    exact = (rows - 1) * step + step - 1 + offset
    assert _value(place, last) == exact
    assert _value(place // by, last) == exact // by
    assert _value(place % by * 7, last) == exact % by * 7


def _graph(function: Callable[[mx.array], mx.array], shape: tuple[int, int]) -> Graph:
    """Trace a function over a small matrix, and take it to a large one."""
    zeros = mx.broadcast_to(mx.array(0, mx.uint8), shape)
    return canonicalize(capture(function, zeros))


def test_a_strided_view_of_more_elements_reads_at_64_bits() -> None:
    graph = _graph(lambda x: x[:, ::65536] + 1, ((1 << 17) + 3, 1 << 16))
    kernel = lower(graph, Elementwise(1, 256)).kernels[0]
    assert "ulong(" in kernel.source


def test_rows_beyond_32_bits_begin_at_64_bit_offsets() -> None:
    graph = _graph(lambda x: x.max(axis=1), ((1 << 17) + 3, 1 << 16))
    assert graph.input_types[0] == TensorType(((1 << 17) + 3, 1 << 16), Dtype.UINT8)
    for schedule in schedules(graph, DEVICE)[:6]:
        assert isinstance(schedule, Rowwise)
        assert "ulong(row) * " in lower(graph, schedule).kernels[0].source


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x + 1, "more elements than a grid counts"),
        (lambda x: x.max(), "more than a loop counts"),
    ],
)
def test_what_is_counted_beyond_32_bits_is_refused(
    function: Callable[[mx.array], mx.array], said: str
) -> None:
    graph = _graph(function, ((1 << 17) + 3, 1 << 16))
    with pytest.raises(UnsupportedError, match=said):
        lower(graph, Elementwise(1, 256))


def test_a_family_that_writes_offsets_by_hand_is_refused() -> None:
    graph = _graph(lambda x: x.max(axis=1), ((1 << 17) + 3, 1 << 16))
    with pytest.raises(UnsupportedError, match="offsets beyond 32 bits"):
        lower(graph, Split(64, 256, 4))
