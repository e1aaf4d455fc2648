"""A function as people write it, with the name that it should get, or names that it should not."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

Function = Callable[..., object]


@dataclass(frozen=True)
class Spelling:
    """A function, the arrays that it takes, and what it is called."""

    function: Function
    arrays: tuple[mx.array, ...]
    name: str
    others: tuple[str, ...] = ()
    """Names of what it only looks like."""


def spelled(names: str | tuple[str, ...], *arrays: mx.array) -> Callable[[Function], Function]:
    """Note a function under its name, or under a tuple of names that are not its own."""

    def note(function: Function) -> Function:
        name, others = (names, ()) if isinstance(names, str) else ("", names)
        notes = vars(sys.modules[function.__module__]).setdefault("SPELLINGS", [])
        notes.append(Spelling(function, arrays, name, others))
        return function

    return note
