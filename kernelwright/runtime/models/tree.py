"""A module as a tree of modules and arrays, by paths of keys."""

from collections.abc import Iterator
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.errors import UnsupportedError

Path = tuple[object, ...]
"""Keys from a module to what it holds, through modules, lists and dicts."""
ORIGINAL = "_kernelwright_original"
"""The attribute of an installed class that holds the module's own class."""
SITE = "_kernelwright_site"
"""The attribute of an installed module that holds its site."""
_PLAIN = (int, float, bool, str, bytes, type(None))
_IGNORED = frozenset({"_no_grad", SITE})


def own_class(module: Module) -> type[Module]:
    """Return the class of a module as it was before anything was installed."""
    kind = type(module)
    return cast("type[Module]", vars(kind).get(ORIGINAL, kind))


def submodules(module: Module) -> Iterator[tuple[Path, Module]]:
    """Yield the modules that a module holds directly, through lists, tuples and dicts."""
    for path, value in _held(module, ()):
        if isinstance(value, Module):
            yield path, value


def all_modules(module: Module) -> Iterator[tuple[Path, Module]]:
    """Yield a module and all below it once each, from the top down."""
    seen: set[int] = set()
    waiting: list[tuple[Path, Module]] = [((), module)]
    while waiting:
        path, found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield path, found
        waiting += [((*path, *inner), child) for inner, child in submodules(found)]


def at(module: Module, path: Path) -> object:
    """Return what stands at a path."""
    value: object = module
    for key in path:
        value = value[key]  # type: ignore[index]
    return value


def array_paths(module: Module) -> list[Path]:
    """List the arrays that a module and those below it hold, in the order of the tree.

    Raises:
        UnsupportedError: one stands in a tuple, where no other can take its place.
    """
    found: list[Path] = []
    for path, value in _held(module, ()):
        if isinstance(value, Module):
            found += [(*path, *inner) for inner in array_paths(value)]
        elif isinstance(value, mx.array):
            if isinstance(at(module, path[:-1]), tuple):
                raise UnsupportedError("the module keeps an array in a tuple; keep it in a list.")
            found.append(path)
    return found


def _held(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield arrays, modules and plain values; containers are walked through."""
    if isinstance(value, dict):
        items: Iterator[tuple[object, object]] = iter(list(dict.items(value)))
    elif isinstance(value, list | tuple):
        items = iter(list(enumerate(value)))
    else:
        items = iter(())
    for key, item in items:
        if isinstance(item, Module) or not isinstance(item, dict | list | tuple):
            yield (*path, key), item
        else:
            yield from _held(item, (*path, key))


class _Same:
    """An object that is equal to itself alone, and lives as long as a key names it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def structure(module: Module) -> tuple[object, ...]:
    """Return what two modules share that compute the same with other parameters.

    Their classes, the plain values that they keep, and the shapes and dtypes of their arrays.
    """
    return _structure(module, {})


def _structure(module: Module, met: dict[int, int]) -> tuple[object, ...]:
    """Return the structure of a module; one that was met before, such as its parent, by number."""
    if id(module) in met:
        return (met[id(module)],)
    met[id(module)] = len(met)
    fields = sorted(object.__getattribute__(module, "__dict__").items())
    kept = tuple((k, _value(v, met)) for k, v in fields if k not in _IGNORED)
    held = tuple((path, _value(value, met)) for path, value in _held(module, ()))
    return (_Same(own_class(module)), kept, held)


def _value(value: object, met: dict[int, int]) -> object:
    if isinstance(value, mx.array):
        return (value.shape, hash(value.dtype))
    if isinstance(value, Module):
        return _structure(value, met)
    if isinstance(value, _PLAIN):
        # 1, 1.0 and True are equal in Python and different to a function of arrays.
        return (type(value), value)
    return _Same(value)
