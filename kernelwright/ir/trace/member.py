"""How an object is reached from another one: the path of a layer within its model."""

from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType

import mlx.core as mx

_DEEPEST = 8
_MOST = 20_000
# From a module everything that is imported is reached; one that loads late would load.
_PLAIN = (mx.array, type, str, bytes, int, float, type(None), FunctionType, ModuleType)


def member_paths(owner: object) -> dict[int, tuple[str, ...]]:
    """Return the attribute paths of the objects that an object holds, by their ids.

    Modules, lists, dicts and objects of the user's classes are walked, the nearest first.
    """
    found: dict[int, tuple[str, ...]] = {id(owner): ()}
    frontier: list[tuple[object, tuple[str, ...]]] = [(owner, ())]
    while frontier and len(found) < _MOST:
        below: list[tuple[object, tuple[str, ...]]] = []
        for value, path in frontier:
            for name, member in _members(value):
                if id(member) not in found and len(path) < _DEEPEST:
                    found[id(member)] = (*path, name)
                    below.append((member, (*path, name)))
        frontier = below
    return found


def path_words(path: tuple[str, ...]) -> tuple[str, ...]:
    """Put a path into words: `layers`, `3`, `mlp` are `layer 3` and `mlp`."""
    words: list[str] = []
    for part in path:
        if part.isdigit() and words:
            words[-1] = f"{_singular(words[-1])} {part}"
        else:
            words.append(part.strip("_") or part)
    return tuple(words)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


def _members(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, list | tuple):
        pairs = ((str(i), member) for i, member in enumerate(value))
    elif isinstance(value, Mapping):
        # A module of MLX is a dict of its parameters and children, with attributes beside.
        own = {**getattr(value, "__dict__", {}), **dict(value.items())}
        pairs = ((str(name), member) for name, member in own.items())
    else:
        pairs = ((name, member) for name, member in getattr(value, "__dict__", {}).items())
    yield from ((name, member) for name, member in pairs if _is_walked(member))


def _is_walked(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, list | tuple | dict):
        return True
    # Asked of the class: an attribute of an object may be computed, and fail.
    return not issubclass(kind, _PLAIN) and kind.__dictoffset__ != 0
