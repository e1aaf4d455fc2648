"""What a program's text decides by its sizes alone, evaluated at many sizes at once.

Sizes are named by template arguments, shapes and the grid; the place of a thread is its largest.
What hangs on data, lanes or loops is unknown, and so is all that is computed from it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import tree_sitter_cpp
from numpy.typing import NDArray
from tree_sitter import Language, Node, Parser

from kernelwright.evaluator.inputs.size_value import (
    SizeValue,
    combined,
    converted,
    extents,
    is_number_type,
    number,
    shifted_out,
)
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
_SPACES = re.compile(r"\b(?:device|threadgroup|constant|thread|constexpr|const)\b(?!_)")
_PLACES = ("thread_position_in_grid", "threadgroup_position_in_grid")
_COUNTS = ("threads_per_grid", "threadgroups_per_grid", "threads_per_threadgroup")
_AXES = {"x": 0, "y": 1, "z": 2, "r": 0, "g": 1, "b": 2}
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_JOINS = frozenset(("&&", "||"))
_CONDITIONS = frozenset(("if_statement", "conditional_expression", "while_statement"))
_FUNCTIONS = frozenset(("min", "max", "abs", "clz", "popcount", "ctz", "select"))
_MOST_EVALUATED = 4000
_DEEPEST = 64


def size_conditions(program: Program, sizes: Mapping[str, Integers]) -> Iterator[Flags]:
    """Yield what each condition on sizes is at all the sizes, which are arrays of one length.

    A remainder, a mask and a narrower type stand for the condition that they change anything, a
    shift for the one that something is left.
    """
    tunables = {t.name: np.array([t.value], np.int64) for t in program.tunables}
    for kernel in program.kernels:
        names = _names(program, kernel, {**sizes, **tunables})
        for text in (kernel.header, kernel.source):
            yield from _Reader(_Scope(names)).conditions(text)


def _names(
    program: Program, kernel: Kernel, sizes: Mapping[str, Integers]
) -> dict[str, tuple[SizeValue, ...]]:
    """Return what a kernel's own names stand for: template arguments, shapes and the grid."""

    def known(extent: int | str) -> SizeValue:
        return SizeValue(extents(extent, sizes), "int")

    found: dict[str, tuple[SizeValue, ...]] = {}
    for name, value in kernel.template.items():
        if not isinstance(value, Dtype):
            found[name] = (known(int(value) if isinstance(value, bool) else value),)
    arrays = {t.name: t for t in (*program.inputs, *program.temporaries, *program.outputs)}
    for name in (*kernel.inputs, *kernel.outputs):
        found[f"{name}_shape"] = tuple(known(extent) for extent in arrays[name].shape)
    grid, group = [[known(n).values for n in three] for three in (kernel.grid, kernel.threadgroup)]
    groups = [-(-whole // np.maximum(part, 1)) for whole, part in zip(grid, group, strict=True)]
    counts = dict(zip(_COUNTS, (grid, groups, group), strict=True))
    places = dict(zip(_PLACES, (grid, groups), strict=True))
    for name, axes in counts.items():
        found[name] = tuple(SizeValue(axis, "uint") for axis in axes)
    for name, axes in places.items():
        found[name] = tuple(SizeValue(np.maximum(axis - 1, 0), "uint") for axis in axes)
    return found


@dataclass
class _Scope:
    """What names stand for, one value or one for each axis."""

    names: dict[str, tuple[SizeValue, ...]]
    evaluated: int = 0
    changed: set[str] = field(default_factory=set)
    """Names that are assigned to, or declared more than once."""


class _Reader:
    """Evaluates one text's expressions."""

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._found: dict[int, SizeValue | None] = {}

    def conditions(self, text: str) -> Iterator[Flags]:
        """Yield the conditions of a text."""
        blank = _SPACES.sub(lambda m: " " * len(m[0]), text)
        tree = _parser().parse(f"void f() {{{blank}\n}}".encode())
        nodes = list(_nodes(tree.root_node))
        self._scope.changed |= _changed(nodes)
        for node in nodes:
            if node.type in ("declaration", "init_declarator"):
                self._declare(node)
            yield from self._decided(node)

    def _declare(self, node: Node) -> None:
        """Note the value of a variable that keeps it."""
        if node.type != "init_declarator" or node.parent is None:
            return
        declarator, value = node.child_by_field_name("declarator"), _field(node, "value")
        name = _text(declarator)
        if value is None or name in self._scope.changed or not name.isidentifier():
            return
        type_ = _text(node.parent.child_by_field_name("type")).strip()
        if axes := self._axes(value):
            self._scope.names[name] = axes
        elif (found := self._value(value)) is not None:
            self._scope.names[name] = (converted(found, type_),)

    def _axes(self, node: Node) -> tuple[SizeValue, ...]:
        """Return a vector of a position or a count, or some of its axes."""
        if node.type == "identifier":
            known = self._scope.names.get(_text(node), ())
            return known if len(known) > 1 else ()
        if node.type == "field_expression":
            whole = self._axes(_child(node, "argument"))
            wanted = _text(node.child_by_field_name("field"))
            if len(wanted) > 1 and whole and all(_AXES.get(c, 9) < len(whole) for c in wanted):
                return tuple(whole[_AXES[c]] for c in wanted)
        return ()

    def _decided(self, node: Node) -> Iterator[Flags]:
        """Yield what an expression decides."""
        operator = _text(node.child_by_field_name("operator"))
        if node.type == "binary_expression" and operator in _COMPARISONS | _JOINS:
            yield from self._flags(node)
        elif node.type == "binary_expression" and operator in ("%", "&", "<<", ">>"):
            left, right = (self._value(_child(node, side)) for side in ("left", "right"))
            made = self._value(node)
            if left is not None and right is not None and made is not None:
                if operator == ">>":
                    yield made.values != 0
                else:
                    yield shifted_out(left, right, made, operator)
        elif node.type in _CONDITIONS and (tested := _field(node, "condition")) is not None:
            yield from self._flags(tested)
        elif (cast := self._cast(node)) is not None:
            given, made = cast
            yield given.values != made.values

    def _flags(self, node: Node) -> Iterator[Flags]:
        if (found := self._value(node)) is not None:
            yield found.values != 0

    def _cast(self, node: Node) -> tuple[SizeValue, SizeValue] | None:
        """Return what a conversion is given and makes, where both are known."""
        inner = _converted_node(node)
        given = self._value(inner) if inner is not None else None
        made = self._value(node) if given is not None else None
        return (given, made) if given is not None and made is not None else None

    def _value(self, node: Node | None, depth: int = 0) -> SizeValue | None:
        if node is None or depth > _DEEPEST:
            return None
        if node.id not in self._found:
            self._scope.evaluated += 1
            known = self._scope.evaluated <= _MOST_EVALUATED
            self._found[node.id] = self._evaluate(node, depth + 1) if known else None
        return self._found[node.id]

    def _evaluate(self, node: Node, depth: int) -> SizeValue | None:
        kind = node.type
        if kind == "number_literal":
            return number(_text(node))
        if kind in ("true", "false"):
            return SizeValue(np.array([kind == "true"], np.int64), "bool")
        if kind == "identifier":
            known = self._scope.names.get(_text(node), ())
            return known[0] if len(known) == 1 else None
        if kind in ("parenthesized_expression", "condition_clause"):
            return self._value(node.named_children[0], depth) if node.named_children else None
        if kind == "field_expression":
            return self._component(node)
        if kind == "subscript_expression":
            return self._dimension(node, depth)
        if kind == "binary_expression":
            left, right = (self._value(_child(node, s), depth) for s in ("left", "right"))
            return combined(_text(node.child_by_field_name("operator")), left, right)
        if kind == "unary_expression":
            inner = self._value(_child(node, "argument"), depth)
            return combined(_text(node.child_by_field_name("operator")), inner)
        if kind == "conditional_expression":
            parts = [
                self._value(_field(node, side), depth)
                for side in ("condition", "consequence", "alternative")
            ]
            return combined("?", *parts)
        return self._called(node, depth)

    def _component(self, node: Node) -> SizeValue | None:
        axes = self._axes(_child(node, "argument"))
        axis = _AXES.get(_text(node.child_by_field_name("field")), 9)
        return axes[axis] if axis < len(axes) else None

    def _dimension(self, node: Node, depth: int) -> SizeValue | None:
        name = _text(node.child_by_field_name("argument"))
        indices = node.child_by_field_name("indices")
        place = self._value(indices.named_children[0], depth) if indices is not None else None
        known = self._scope.names.get(name, ())
        if place is None or place.values.size != 1 or not 0 <= place.values[0] < len(known):
            return None
        return known[int(place.values[0])]

    def _called(self, node: Node, depth: int) -> SizeValue | None:
        inner = _converted_node(node)
        if inner is not None:
            given = self._value(inner, depth)
            return None if given is None else converted(given, _target(node))
        if node.type != "call_expression":
            return None
        function = _text(node.child_by_field_name("function")).rpartition("::")[2]
        arguments = node.child_by_field_name("arguments")
        if function not in _FUNCTIONS or arguments is None:
            return None
        return combined(function, *(self._value(a, depth) for a in arguments.named_children))


def _converted_node(node: Node) -> Node | None:
    """Return what `uint(x)`, `(uint)x` or `static_cast<uint>(x)` converts."""
    if node.type == "cast_expression":
        return _field(node, "value")
    arguments = node.child_by_field_name("arguments")
    if node.type != "call_expression" or arguments is None or len(arguments.named_children) != 1:
        return None
    return arguments.named_children[0] if is_number_type(_target(node)) else None


def _target(node: Node) -> str:
    """Return the type that a conversion makes."""
    if node.type == "cast_expression":
        return _text(node.child_by_field_name("type"))
    function = _text(node.child_by_field_name("function"))
    named = re.fullmatch(r"static_cast\s*<\s*(\w+)\s*>", function)
    return named[1] if named else function


def _changed(nodes: Sequence[Node]) -> set[str]:
    found, declared = set[str](), set[str]()
    for node in nodes:
        if node.type == "assignment_expression":
            found.add(_text(node.child_by_field_name("left")))
        elif node.type == "update_expression":
            found.add(_text(node.child_by_field_name("argument")))
        elif node.type == "init_declarator":
            name = _text(node.child_by_field_name("declarator"))
            if name in declared:
                found.add(name)
            declared.add(name)
        elif node.type == "parameter_declaration":
            found.add(_text(node.child_by_field_name("declarator")))
    return found


def _nodes(root: Node) -> Iterator[Node]:
    """Yield all nodes, each before those inside of it, in the order of the text."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.named_children)


def _field(node: Node, name: str) -> Node | None:
    return node.child_by_field_name(name)


def _child(node: Node, name: str) -> Node:
    found = node.child_by_field_name(name)
    assert found is not None
    return found


def _text(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))
