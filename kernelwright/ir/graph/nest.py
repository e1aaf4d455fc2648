"""How a function hands its results back: a nest of tuples, lists and dicts over them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal

from kernelwright.errors import InputError

Kind = Literal["tuple", "list", "dict", "part"]
Plain = bool | int | float | str | None
_KINDS: Mapping[str, Kind] = {"tuple": "tuple", "list": "list", "dict": "dict", "part": "part"}


Setting = bool | int | str | tuple["Setting", ...]
"""What an attribute of a view holds."""


@dataclass(frozen=True, slots=True)
class View:
    """A step that shows an array in another shape."""

    op: str
    attributes: tuple[tuple[str, Setting], ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """A leaf: one of a graph's outputs, by its place, as views show it."""

    place: int
    views: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """A leaf that nothing has to make: one of a graph's inputs, by its place, as views show it."""

    place: int
    views: tuple[View, ...] = ()


Leaf = Output | Given


@dataclass(frozen=True, slots=True)
class Nest:
    """A tuple, a list or a dict of leaves, plain values and others of its kind.

    A `part` is a tuple of what a region makes, which is not all that its function returns: what
    that returns first, in its order, then what the rest of it reads. Its keys are the places of
    the arrays that are missing, among those that the function returns. One array is no tuple.
    """

    kind: Kind
    items: tuple["Tree", ...]
    keys: tuple[str | int, ...] = ()


Tree = Nest | Leaf | Plain


def nest_of(result: object, is_array: Callable[[object], bool]) -> Tree:
    """Return the nest of a call's result, its arrays numbered as a graph's outputs are.

    Named tuples are tuples, objects of dataclasses dicts: a kernel by itself has no class of its
    user's. The answer is None where a value is among them that has no literal.
    """
    count = 0

    def visit(node: object) -> Tree:
        nonlocal count
        if is_array(node):
            count += 1
            return Output(count - 1)
        if isinstance(node, Mapping):
            return Nest("dict", tuple(map(visit, node.values())), tuple(map(_key, node)))
        if isinstance(node, list | tuple):
            kind: Kind = "list" if isinstance(node, list) else "tuple"
            return Nest(kind, tuple(map(visit, node)))
        if is_dataclass(node) and not isinstance(node, type):
            names = tuple(f.name for f in fields(node))
            return Nest("dict", tuple(visit(getattr(node, name)) for name in names), names)
        if node is None or type(node) in (bool, int, float, str):
            return node  # type: ignore[return-value]
        raise TypeError

    try:
        return visit(result)
    except TypeError:
        return None


def _key(key: object) -> str | int:
    if isinstance(key, str | int):
        return key
    raise TypeError


def leaves(tree: Tree) -> tuple[Leaf, ...]:
    """Return the leaves in their order."""
    if isinstance(tree, Leaf):
        return (tree,)
    items = tree.items if isinstance(tree, Nest) else ()
    return tuple(leaf for item in items for leaf in leaves(item))


def made(tree: Tree) -> tuple[Output, ...]:
    """Return the leaves that are a graph's outputs, in their order."""
    return tuple(leaf for leaf in leaves(tree) if isinstance(leaf, Output))


def missing(tree: Tree) -> str:
    """Say which arrays its function returns beside a part; nothing where the nest is whole."""
    if not isinstance(tree, Nest) or tree.kind != "part" or not tree.keys:
        return ""
    places = [str(int(place) + 1) for place in tree.keys]
    one = len(places) == 1
    listed = places[0] if one else f"{', '.join(places[:-1])} and {places[-1]}"
    return f"array{'' if one else 's'} {listed} of what its function returns"


def moved(tree: Tree, outputs: Mapping[int, Leaf], inputs: Mapping[int, int] | None = None) -> Tree:
    """Return the nest with other leaves for the outputs at its places, shown as before.

    Inputs go to other places where `inputs` names them.
    """
    if isinstance(tree, Given):
        return replace(tree, place=(inputs or {}).get(tree.place, tree.place))
    if isinstance(tree, Output):
        found = outputs[tree.place]
        return replace(found, views=(*found.views, *tree.views))
    if isinstance(tree, Nest):
        items = tuple(moved(item, outputs, inputs) for item in tree.items)
        return replace(tree, items=items)
    return tree


def numbered(tree: Tree) -> Tree:
    """Return the nest over its own leaves, each a result by itself."""
    turn = iter(range(len(leaves(tree))))

    def visit(node: Tree) -> Tree:
        if isinstance(node, Leaf):
            return Output(next(turn))
        return (
            Nest(node.kind, tuple(map(visit, node.items)), node.keys)
            if isinstance(node, Nest)
            else node
        )

    return visit(tree)


def flat(tree: Tree) -> Tree:
    """Return the leaves alone: one array, or a tuple of them; a part is flat."""
    if isinstance(tree, Nest) and tree.kind == "part":
        return tree
    found = leaves(tree)
    return found[0] if len(found) == 1 else Nest("tuple", found)


def source(tree: Tree, results: Sequence[str]) -> str:
    """Print the nest as Python, each leaf as the expression of its output.

    Raises:
        TypeError: an input is among the leaves; `numbered` makes results of all.
    """
    if isinstance(tree, Output):
        return results[tree.place]
    if isinstance(tree, Given):
        raise TypeError(f"expected results alone, found input {tree.place}")
    if not isinstance(tree, Nest):
        return repr(tree)
    items = [source(item, results) for item in tree.items]
    if tree.kind == "dict":
        return f"{{{', '.join(f'{k!r}: {i}' for k, i in zip(tree.keys, items, strict=True))}}}"
    listed = ", ".join(items)
    if tree.kind == "list":
        return f"[{listed}]"
    if tree.kind == "part" and len(items) == 1:
        return listed
    return f"({listed},)" if len(items) == 1 else f"({listed})"


def to_data(tree: Tree) -> object:
    """Return the nest as values that JSON has."""
    if isinstance(tree, Leaf):
        views = [[view.op, dict(view.attributes), view.shape] for view in tree.views]
        return {"input" if isinstance(tree, Given) else "output": tree.place, "views": views}
    if isinstance(tree, Nest):
        return [tree.kind, [to_data(item) for item in tree.items], list(tree.keys)]
    return tree


def from_data(data: object) -> Tree:
    """Read what `to_data` wrote.

    Raises:
        InputError: it is no nest.
    """
    match data:
        case {"output": int(place), "views": list(views)}:
            return Output(place, tuple(_views(views)))
        case {"input": int(place), "views": list(views)}:
            return Given(place, tuple(_views(views)))
        case [str(kind), list(items), list(keys)] if kind in _KINDS:
            return Nest(_KINDS[kind], tuple(map(from_data, items)), tuple(keys))
        case None | bool() | int() | float() | str():
            return data
    raise InputError(f"expected a nest of outputs, found {data!r}.")


def _views(data: list[tuple[str, Mapping[str, object], list[int]]]) -> Iterator[View]:
    for op, found, shape in data:
        yield View(op, tuple(_settings(found)), tuple(shape))


def _settings(attributes: Mapping[str, object]) -> Iterator[tuple[str, Setting]]:
    for name, value in attributes.items():
        yield name, _setting(value)


def _setting(value: object) -> Setting:
    if isinstance(value, list):
        return tuple(map(_setting, value))
    assert isinstance(value, bool | int | str)
    return value
