"""A call is known by what the function reads of its objects, and by nothing else that they hold."""

# mypy: disable-error-code="attr-defined,no-any-return,name-defined,misc"

import logging
import threading
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import pytest

from kernelwright.runtime.export.function.passed_call import _Call, _leaves
from kernelwright.runtime.export.function.passed_nest import _record
from kernelwright.runtime.export.function.result_nest import nest_source
from kernelwright.runtime.export.function.traced_call import names_read, trace

X = mx.zeros((4, 8))
FACTOR = 2.0


class Block(nn.Module):
    eps = 1e-5

    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.ones((8,))
        self.scale = 2.0
        self.steps = 0
        self.log = logging.getLogger("of a test")
        self.lock = threading.Lock()

    def __call__(self, x: mx.array) -> mx.array:
        return mx.exp(x + self.eps) * self.weight * self.scale

    def count(self) -> int:
        self.steps += 1
        return self.steps


class WithDropout(Block):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def __call__(self, x: mx.array) -> mx.array:
        return self.drop(mx.exp(x) * self["weight"])


class Slotted:
    __slots__ = ("factor", "unread", "weight")

    def __init__(self) -> None:
        self.factor, self.unread, self.weight = 2.0, object(), mx.ones((8,))

    def __call__(self, x: mx.array) -> mx.array:
        return mx.exp(x) * self.factor * self.weight


class ByName(Block):
    def __call__(self, x: mx.array) -> mx.array:
        return mx.exp(x) * getattr(self, "sca" + "le")


class ByKey(Block):
    def __call__(self, x: mx.array) -> mx.array:
        key = "".join(["wei", "ght"])
        return mx.exp(x) * self[key]


def _key(block: object, names: frozenset[str] | None) -> str:
    return _Call(((block, X), {}), (), names).key


def _names(block: object) -> frozenset[str] | None:
    return names_read(type(block).__call__, _Call(((block, X), {})))


def test_what_no_line_reads_plays_no_part() -> None:
    block = Block()
    names = _names(block)
    assert names is not None
    assert {"weight", "scale", "eps"} <= names
    assert names.isdisjoint({"steps", "log", "lock", "_training"})
    before = _key(block, names)
    block.count()
    block.log, block.anything = logging.getLogger("another"), [1, 2]
    block.eval()
    assert _key(block, names) == before
    block.scale = 3.0
    assert _key(block, names) != before


def test_an_attribute_that_comes_later_counts_where_a_line_reads_its_name() -> None:
    block = Block()
    names = _names(block)
    before = _key(block, names)
    block.eps = 1.0
    assert _key(block, names) != before


def test_a_class_is_read_where_its_objects_lack_an_attribute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = Block()
    names = _names(block)
    before = _key(block, names)
    monkeypatch.setattr(Block, "eps", 1e-3)
    assert _key(block, names) != before


def test_training_counts_for_what_trains() -> None:
    block = WithDropout()
    block.eval()
    names = _names(block)
    assert names is not None
    before = _key(block, names)
    block.train()
    assert _key(block, names) != before


def test_slots_are_attributes() -> None:
    block = Slotted()
    names = _names(block)
    call = _Call(((block, X), {}), (), names)
    assert [call.array_at(i) is block.weight for i in range(len(call.slots))] == [True]
    block.unread = 7
    assert _key(block, names) == call.key
    block.factor = 3.0
    assert _key(block, names) != call.key


@pytest.mark.parametrize("kind", [ByName, ByKey])
def test_everything_counts_where_names_are_computed(kind: type[Block]) -> None:
    block = kind()
    assert _names(block) is None


@dataclass(frozen=True)
class Made:
    mean: mx.array
    count: int
    more: tuple[mx.array, ...]

    def __post_init__(self) -> None:
        assert self.count > 0


def test_a_result_may_be_a_dataclass() -> None:
    def function(x: mx.array) -> dict[str, object]:
        return {"made": Made(mx.mean(x), 3, (x * 2, x * FACTOR)), "last": x + 1}

    (traced,) = trace(function, _Call(((X,), {})), ["x"], _Call(()))
    source = nest_source(traced.result, lambda kind: kind.__name__)
    nest = eval(source, {"_record": _record, "Made": Made})
    arrays = _leaves(function(X + 1))
    made = nest(*arrays)
    assert type(made["made"]) is Made
    assert made["made"].count == 3
    assert made["made"].mean is arrays[0]
    assert made["made"].more == (arrays[1], arrays[2])
    assert made["last"] is arrays[3]
