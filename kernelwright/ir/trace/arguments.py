"""The arrays inside a function's arguments and results: flattened, named, put back."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeGuard

Tree = object
"""A nest of lists, tuples, dicts and dataclasses whose leaves are arrays or plain Python values."""


@dataclass(frozen=True)
class Leaf:
    """One array of a nest and the path to it, such as `cache.0.keys`."""

    path: str
    array: object


def leaves(tree: Tree, path: str, is_array: Callable[[object], bool]) -> list[Leaf]:
    """List the arrays of a nest in a fixed order: positions ascending, keys as inserted."""
    if is_array(tree):
        return [Leaf(path, tree)]
    return [
        leaf for key, child in _children(tree) for leaf in leaves(child, f"{path}.{key}", is_array)
    ]


def rebuild(tree: Tree, arrays: Sequence[object], is_array: Callable[[object], bool]) -> Tree:
    """Return the nest with its arrays replaced, in the order of `leaves`."""
    remaining = iter(arrays)

    def visit(node: Tree) -> Tree:
        if is_array(node):
            return next(remaining)
        if _is_mapping(node):
            return _mapping(node, {key: visit(child) for key, child in _children(node)})
        if isinstance(node, tuple):
            children = [visit(child) for child in node]
            make = getattr(type(node), "_make", tuple)
            return make(children)
        if isinstance(node, list):
            return [visit(child) for child in node]
        if _is_record(node):
            return _record(node, [(name, visit(child)) for name, child in _children(node)])
        return node

    return visit(tree)


def _children(tree: Tree) -> Sequence[tuple[object, Tree]]:
    if _is_mapping(tree):
        return list(tree.items())
    if isinstance(tree, list | tuple):
        return list(enumerate(tree))
    if _is_record(tree):
        names = [f.name for f in fields(tree)]  # type: ignore[arg-type]
        return [(name, getattr(tree, name)) for name in names if hasattr(tree, name)]
    return []


def _is_mapping(tree: Tree) -> TypeGuard[Mapping[object, Tree]]:
    """Say whether a value is a dict, and no module, whose class makes it one of its parameters."""
    return isinstance(tree, Mapping) and not callable(tree)


def _mapping(like: Mapping[object, Tree], values: dict[object, Tree]) -> Tree:
    """Return a dict of the same kind, such as one of `collections`, with other values."""
    if type(like) is dict or not isinstance(like, dict):
        return values
    made = copy.copy(like)
    made.update(values)
    return made


def _is_record(tree: Tree) -> bool:
    """Say whether a value is an object of a dataclass that only holds values, and no module."""
    return is_dataclass(tree) and not isinstance(tree, type) and not callable(tree)


def _record(like: Tree, values: Sequence[tuple[object, Tree]]) -> Tree:
    """Return an object of a dataclass with other values, as its `__init__` left the rest."""
    made = type(like).__new__(type(like))
    for name, value in (*_state_of(like), *values):
        object.__setattr__(made, str(name), value)
    return made


def _state_of(value: Tree) -> Sequence[tuple[object, Tree]]:
    """Return what an object holds, in its dictionary and in the slots of its classes."""
    named = (kind.__dict__.get("__slots__", ()) for kind in type(value).__mro__)
    slots = (n for names in named for n in ((names,) if isinstance(names, str) else names))
    held = [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    # Of these two Python takes care itself.
    kept = [(name, member) for name, member in held if name not in ("__dict__", "__weakref__")]
    return [*kept, *getattr(value, "__dict__", {}).items()]
