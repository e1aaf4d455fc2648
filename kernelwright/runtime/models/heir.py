"""Subclasses that take a class's place where code looks at classes."""

from collections.abc import Mapping
from functools import cache
from typing import cast

from mlx.nn.layers.base import Module

from kernelwright.runtime.models.tree import ORIGINAL


def set_class(module: Module, kind: type[Module]) -> None:
    """Give an object another class, past all that its own class says of that."""
    vars(object)["__class__"].__set__(module, kind)


class _Silent:
    """Stands before a class in what inherits from it, so that the class hears of no heir."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Ask for nothing and note nothing."""


@cache
def _kind_of_classes(kind: type[type]) -> type[type]:
    """Return a class for classes that are equal to those whose place they take.

    Code may look up what to do by `type(layer)`, or compare it. What it sets there, every object of
    the class has, and has for good.
    """

    def __eq__(cls: type, other: object) -> bool:  # noqa: N807
        return isinstance(other, type) and _original(cls) is _original(other)

    def __hash__(cls: type) -> int:  # noqa: N807
        return type.__hash__(_original(cls))

    def __setattr__(cls: type, name: str, value: object) -> None:  # noqa: N807
        setattr(_original(cls), name, value)

    def __delattr__(cls: type, name: str) -> None:  # noqa: N807
        delattr(_original(cls), name)

    body = {"__eq__": __eq__, "__hash__": __hash__}
    return type(
        kind.__name__, (kind,), {**body, "__setattr__": __setattr__, "__delattr__": __delattr__}
    )


def _original(kind: type) -> object:
    return vars(kind).get(ORIGINAL, kind)


def heir(kind: type[Module], body: Mapping[str, object]) -> type[Module]:
    """Return a subclass that goes for the class: equal to it, and what its objects say they are.

    Neither the class nor its own class hears of it: they may count heirs, or ask for more.
    """
    body = {**body, ORIGINAL: kind, "__class__": property(lambda self: kind, set_class)}
    metaclass: type[type] = _kind_of_classes(type(kind))  # type: ignore[arg-type]
    made: object = type.__new__(metaclass, kind.__name__, (_Silent, kind), body)
    return cast("type[Module]", made)
