"""Paths of members are found without running what objects compute, or load late."""

import sys
from types import ModuleType

from kernelwright.ir.trace.member import member_paths


class Late(ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> object:
        raise ModuleNotFoundError(f"No module named {self.__name__!r}")


class Part:
    pass


class Computed:
    def __init__(self) -> None:
        self.part = Part()

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"{name} cannot be computed")


def test_a_member_whose_attributes_fail_is_walked() -> None:
    owner = Part()
    owner.computed = Computed()  # type: ignore[attr-defined]
    assert member_paths(owner)[id(owner.computed.part)] == (  # type: ignore[attr-defined]
        "computed",
        "part",
    )


def test_modules_lead_to_what_they_hold_and_to_no_other_modules() -> None:
    module = ModuleType("layers")
    vars(module).update(part=Part(), late=Late("late"), sys=sys)
    assert set(member_paths(module).values()) == {(), ("part",)}
