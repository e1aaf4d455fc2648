"""A cached property is the same before it was read as after, and another one is told apart."""

from functools import cached_property

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.unchanged import _Unchanged

NAMES = frozenset({"dims", "scale", "table", "block", "astype"})


class Block:
    def __init__(self) -> None:
        self.dims = 16

    @cached_property
    def scale(self) -> float:
        return float(self.dims**-0.5)

    @cached_property
    def table(self) -> mx.array:
        return mx.arange(self.dims)

    @cached_property
    def unread(self) -> float:
        raise AssertionError

    def __call__(self, x: mx.array) -> mx.array:
        return x * self.scale + self.table


block = Block()


def called(x: mx.array) -> mx.array:
    return block(x)


@pytest.fixture(autouse=True)
def fresh() -> None:
    block.__dict__.clear()
    block.dims = 16


def _key() -> str:
    return _Call((mx.zeros(16),), [(globals(), "block")], NAMES).key


def test_a_call_is_the_same_before_and_after_it_was_read() -> None:
    before = _key()
    called(mx.zeros(16))
    assert _key() == before
    call = _Call((), [(globals(), "block")], NAMES)
    assert mx.array_equal(call.array_at(0), block.table).item()


def test_a_value_that_was_set_is_another() -> None:
    before = _key()
    vars(block)["scale"] = 2.0
    assert _key() != before


def test_what_a_function_reads_is_unchanged_once_it_was_read() -> None:
    is_unchanged = _Unchanged(called, NAMES, ())
    called(mx.zeros(16))
    assert is_unchanged()
    vars(block)["scale"] = 2.0
    assert not is_unchanged()
