"""The arrays inside a function's arguments and results: flattened, named, put back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

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
        if isinstance(node, dict):
            return {key: visit(child) for key, child in node.items()}
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
    if isinstance(tree, Mapping):
        return list(tree.items())
    if isinstance(tree, list | tuple):
        return list(enumerate(tree))
    if _is_record(tree):
        return [(f.name, getattr(tree, f.name)) for f in fields(tree)]  # type: ignore[arg-type]
    return []


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
