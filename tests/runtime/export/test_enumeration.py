"""Members of a user's enumeration are those of an exported module's copy of it."""

import enum
from collections.abc import Mapping, Sequence
from types import ModuleType

import pytest

from kernelwright.runtime.definition import _are_alike
from kernelwright.runtime.export.function.dispatch import _with_kernels

_TEXT = """
import enum
import typing

class Mode(enum.Enum):
    ADD = "add"
    MUL = "mul"

class Norm(enum.IntEnum):
    NONE = 0
    SQUARE = 2

class Bits(enum.Flag):
    LOW = 1
    HIGH = 2

def said(*values, **named):
    values = (*values, *named.values())
    return [type(v) in (Mode, Norm, Bits) for v in values if isinstance(v, enum.Enum)]

class Options:
    def __init__(self, *modes):
        self.mode, self.others = modes[0], modes[1:]

class Held(typing.NamedTuple):
    options: Options

def inside(held, given=()):
    held.options.seen = True
    return [m in list(Mode) for m in (held.options.mode, *held.options.others)]

def places(values):
    values["seen"] = [i for i, v in values.items() if v is Mode.ADD]
    return values["seen"]
"""


def _module(name: str, text: str = _TEXT) -> ModuleType:
    module = ModuleType(name)
    exec(text, vars(module))
    return module


@pytest.mark.parametrize("name", ["Mode.ADD", "Norm.NONE", "Bits.LOW | Bits.HIGH", "Bits(0)"])
def test_a_users_member_is_taken_for_the_modules_own(name: str) -> None:
    theirs, ours = _module("theirs"), _module("ours")
    member = eval(name, vars(theirs))
    said = _with_kernels(ours.said, {})
    assert said(member) == [True]
    assert said(mode=member) == [True]
    assert ours.said(member) == [False]


def test_members_stay_within_the_lists_and_dicts_of_the_caller() -> None:
    theirs, ours = _module("theirs"), _module("ours")
    nest: Sequence[Mapping[int, enum.Enum]] = [{1: theirs.Mode.MUL, 2: theirs.Mode.ADD}]
    assert _with_kernels(ours.places, {})(nest[0]) == [2]
    plain: dict[object, object] = {1: "add"}
    _with_kernels(ours.places, {})(plain)
    assert plain["seen"] == []


def test_an_enumeration_that_says_otherwise_is_no_copy() -> None:
    theirs = _module("theirs", _TEXT.replace('"add"', '"sum"'))
    assert _with_kernels(_module("ours").said, {})(theirs.Mode.ADD) == [False]


def test_members_inside_objects_are_the_modules_own_during_a_call() -> None:
    theirs, ours = _module("theirs"), _module("ours")
    held = theirs.Held(theirs.Options(theirs.Mode.ADD, theirs.Mode.MUL))
    assert ours.inside(held) == [False, False]
    assert _with_kernels(ours.inside, {})(held) == [True, True]
    # The caller's object is the one that the function saw, and keeps the caller's members.
    assert held.options.seen
    assert held.options.mode is theirs.Mode.ADD
    assert held.options.others == (theirs.Mode.MUL,)


def test_a_class_whose_default_is_a_member_is_like_its_copy() -> None:
    text = (
        _TEXT
        + """
import dataclasses

@dataclasses.dataclass
class Config:
    mode: Mode = Mode.ADD
"""
    )
    theirs, ours = _module("theirs", text), _module("ours", text)
    assert _are_alike(theirs.Config, ours.Config)
    changed = _module("changed", text.replace('"mul"', '"times"'))
    assert not _are_alike(theirs.Config, changed.Config)
    grown = text.replace('MUL = "mul"', 'MUL = "mul"\n    def half(self): return 0.5')
    assert not _are_alike(theirs.Mode, _module("grown", grown).Mode)
