"""Expressions over arrays: Python's syntax tree, checked node by node, as functions of MLX."""

import ast
import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.service.python.authoring.grouping import check_grouping
from kernelwright.service.python.authoring.intrinsic import (
    CONSTANTS,
    INTRINSICS,
    PREFIXED,
    REDUCTIONS,
    Intrinsic,
    Value,
)
from kernelwright.service.python.authoring.spelling import spelled
from kernelwright.service.python.authoring.wording import quoted, quoted_at

Names = Mapping[str, Value]
Run = Callable[[Names], Value]
Place = Callable[[ast.AST], str]
"""Says where a node stands, such as `at column 5 of 'x * sigmod(y)'`."""
_DEEPEST = 200

_BINARY: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.BitAnd: lambda a, b: a & b,  # type: ignore[operator]
    ast.BitOr: lambda a, b: a | b,  # type: ignore[operator]
    ast.BitXor: lambda a, b: mx.bitwise_xor(a, b),
    ast.LShift: lambda a, b: a << b,  # type: ignore[operator]
    ast.RShift: lambda a, b: a >> b,  # type: ignore[operator]
}
_COMPARED: dict[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Expression:
    """A parsed expression: the names it reads, and what it computes of their values."""

    text: str
    names: tuple[str, ...]
    """Free names in order of their first appearance."""
    run: Run
    reduces: bool
    """True where it takes rows to one value each."""
    calls: tuple[str, ...] = ()
    """The functions that it calls by a name without a prefix."""


def parse(text: str, *, known: Collection[str] = (), may_reduce: bool = False) -> Expression:
    """Parse a line such as `x * sigmoid(y)` or `x > 0.0f ? x : 0.1f * x`.

    Args:
        text: in Python's or Metal's spelling.
        known: names that may be functions' names too, and are values here.
        may_reduce: whether `sum(x)`, `mean(x)`, `max(x)` and such over a row are allowed.

    Raises:
        InputError: it is none; the sentence names the column.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"expected an expression such as 'x * sigmoid(y)', found {quoted(text)}.")
    written = spelled(text)
    inside = f"({written.text})"

    def place(node: ast.AST) -> str:
        column = written.column(_in_characters(node, inside) - 1)
        return f"at column {column} of {quoted_at(text, column)}"

    try:
        tree = ast.parse(inside, mode="eval").body
    except SyntaxError as e:
        column = written.column((e.offset or 2) - 2)
        raise InputError(
            f"expected an expression such as 'x * sigmoid(y)', found {quoted_at(text, column)}: "
            f"{e.msg} at column {column}."
        ) from e
    except (ValueError, RecursionError, MemoryError) as e:
        raise InputError(
            f"expected an expression that Python parses, found {quoted(text)}: {e}."
        ) from e
    check_grouping(tree, inside, place)
    return build(tree, text, place, known=known, may_reduce=may_reduce, is_line=True)


def _in_characters(node: ast.AST, text: str) -> int:
    """Return a node's column; Python counts bytes."""
    offset = getattr(node, "col_offset", 0)
    return len(text.encode()[:offset].decode(errors="ignore"))


def build(
    tree: ast.expr,
    text: str,
    place: Place,
    *,
    known: Collection[str] = (),
    may_reduce: bool = False,
    is_line: bool = False,
) -> Expression:
    """Check a tree and make it a function of its names.

    `is_line` says that the tree is a line's, in which `!` is spelled as `~`.

    Raises:
        InputError: a node is no part of the language; the sentence names its place.
    """
    builder = _Builder(place, known, may_reduce=may_reduce, is_line=is_line)
    run = builder.node(tree, 0)
    if both := sorted(builder.calls & {*builder.names, *known}):
        raise InputError(refused_as_both(both[0], f"in {quoted(text)}"))
    return Expression(text, tuple(builder.names), run, builder.reduces, tuple(builder.calls))


def refused_as_both(name: str, where: str) -> str:
    """Say that a name is an array's and a function's."""
    return (
        f"expected {name!r} to name an array or a function, found both {where}; give the array "
        "another name."
    )


class _Builder:
    def __init__(
        self, place: Place, known: Collection[str], *, may_reduce: bool, is_line: bool
    ) -> None:
        self._place = place
        self._known = known
        self._may_reduce = may_reduce
        self._is_line = is_line
        self.names: dict[str, None] = {}
        self.calls: set[str] = set()
        self.reduces = False

    def node(self, node: ast.expr, depth: int) -> Run:
        """Make a node a function of the names."""
        if depth > _DEEPEST:
            raise InputError(f"expected at most {_DEEPEST} operations in one another.")
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return lambda names: number
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.UnaryOp():
                return self._unary(node, depth)
            case ast.BinOp(op=op) if type(op) in _BINARY:
                two = _BINARY[type(op)]
                left, right = self.node(node.left, depth + 1), self.node(node.right, depth + 1)
                return lambda names: two(left(names), right(names))
            case ast.BoolOp():
                return self._logical(node, depth)
            case ast.Compare():
                return self._compared(node, depth)
            case ast.IfExp():
                parts = (node.test, node.body, node.orelse)
                test, body, other = (self.node(part, depth + 1) for part in parts)
                return lambda names: _applied(mx.where, [test(names), body(names), other(names)])
            case ast.Call():
                return self._call(node, depth)
            case ast.Attribute() if (found := _dotted(node)) and found[1] in CONSTANTS:
                constant = CONSTANTS[found[1]]
                return lambda names: constant
        raise InputError(
            f"expected numbers, names, operators, comparisons, 'a if c else b' and functions, "
            f"found {_kind(node)} {self._place(node)}."
        )

    def _name(self, name: str, node: ast.expr) -> Run:
        if name in CONSTANTS and name not in self._known:
            constant = CONSTANTS[name]
            return lambda names: constant
        if name in INTRINSICS and name not in self._known:
            raise InputError(
                f"expected {name} to be called, as {name}(x), found it alone {self._place(node)}."
            )
        self.names[name] = None
        return lambda names: names[name]

    def _unary(self, node: ast.UnaryOp, depth: int) -> Run:
        value = self.node(node.operand, depth + 1)
        match node.op:
            case ast.USub():
                return lambda names: -value(names)
            case ast.UAdd():
                return value
            case ast.Invert() if self._is_line:
                return lambda names: _applied(mx.logical_not, [value(names)])
            case ast.Not():
                return lambda names: _applied(mx.logical_not, [value(names)])
        raise InputError(f"expected -, + or not, found {_kind(node.op)} {self._place(node)}.")

    def _logical(self, node: ast.BoolOp, depth: int) -> Run:
        join = mx.logical_and if isinstance(node.op, ast.And) else mx.logical_or
        return _chain([self.node(v, depth + 1) for v in node.values], join)

    def _compared(self, node: ast.Compare, depth: int) -> Run:
        if unknown := [op for op in node.ops if type(op) not in _COMPARED]:
            raise InputError(
                f"expected ==, !=, <, <=, > or >=, found {_kind(unknown[0])} {self._place(node)}."
            )
        values = [self.node(v, depth + 1) for v in (node.left, *node.comparators)]
        pairs = [
            _pair(_COMPARED[type(op)], left, right)
            for op, left, right in zip(node.ops, values, values[1:], strict=False)
        ]
        return _chain(pairs, mx.logical_and)

    def _call(self, node: ast.Call, depth: int) -> Run:
        prefix, name = _dotted(node.func) or ("", ast.unparse(node.func))
        given = len(node.args)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise InputError(f"expected arguments by position alone {self._place(node)}.")
        if prefix:
            intrinsic = self._prefixed(prefix, name, node)
        else:
            intrinsic = self._intrinsic(name, given, node)
            self.calls.add(name)
        most = intrinsic.most
        if given < intrinsic.least or (most is not None and given > most):
            more = "" if most == intrinsic.least else " or more"
            noun = "argument" if intrinsic.least == 1 and not more else "arguments"
            raise InputError(
                f"expected {intrinsic.least}{more} {noun} of {name}, found {given} "
                f"{self._place(node)}."
            )
        self.reduces |= intrinsic.reduces
        arguments, call = [self.node(a, depth + 1) for a in node.args], intrinsic.call
        return lambda names: _applied(call, [argument(names) for argument in arguments])

    def _intrinsic(self, name: str, given: int, node: ast.Call) -> Intrinsic:
        if name in REDUCTIONS and given == 1:
            if self._may_reduce:
                return REDUCTIONS[name]
            raise InputError(
                f"expected an expression of single elements, found {name} over a row "
                f"{self._place(node)}; use kernelwright.rowwise."
            )
        if name in INTRINSICS:
            return INTRINSICS[name]
        hint = _nearest(name, list(dict.fromkeys([*INTRINSICS, *REDUCTIONS])))
        raise InputError(
            f"expected a function of expressions, found {quoted(name)} {self._place(node)}; {hint}"
        )

    def _prefixed(self, prefix: str, name: str, node: ast.Call) -> Intrinsic:
        functions = PREFIXED[prefix]
        if name in functions:
            return functions[name]
        language = {"mx": "MLX", "np": "NumPy", "math": "Python's math"}.get(prefix, "Metal")
        found = f"found {name!r} {self._place(node)}"
        if name in REDUCTIONS:
            raise InputError(
                f"expected a function of single elements behind a prefix, {found}; write "
                f"{name}(x) for a row, or {name}imum(x, y) of two arrays."
                if name in ("min", "max")
                else f"expected a function of single elements behind a prefix, {found}; write "
                f"{name}(x) for a row."
            )
        hint = (
            f"write {name} without a prefix." if name in INTRINSICS else _nearest(name, functions)
        )
        raise InputError(f"expected a function of {language}, {found}; {hint}")


def _nearest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."


def _applied(call: Callable[..., Value], values: Sequence[Value]) -> Value:
    """Call a function of MLX; of numbers alone it gives a number, which takes no dtype."""
    if any(isinstance(value, mx.array) for value in values):
        return call(*values)
    made = call(*(mx.array(value) for value in values))
    return made.item() if isinstance(made, mx.array) else made  # type: ignore[return-value]


def _pair(compare: Callable[[Value, Value], Value], left: Run, right: Run) -> Run:
    return lambda names: compare(left(names), right(names))


def _chain(parts: list[Run], join: Callable[..., Value]) -> Run:
    def run(names: Names) -> Value:
        found = parts[0](names)
        for part in parts[1:]:
            found = _applied(join, [found, part(names)])
        return found

    return run


def _dotted(node: ast.expr) -> tuple[str, str] | None:
    """Return `("metal", "exp")` of `metal.precise.exp`; None where other things are before it."""
    match node:
        case ast.Name(id=name):
            return "", name
        case ast.Attribute(value=ast.Name(id=prefix), attr=name) if prefix in PREFIXED:
            return prefix, name
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id="metal"), attr="precise" | "fast"), attr=name
        ):
            return "metal", name
    return None


def _kind(node: ast.AST) -> str:
    """Name a node of Python's as people do."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    words = {
        ast.Subscript: "an index",
        ast.Attribute: "an attribute",
        ast.Lambda: "a lambda",
        ast.Tuple: "several values",
        ast.List: "a list",
        ast.Dict: "a dict",
        ast.FloorDiv: "//",
        ast.MatMult: "@",
        ast.Invert: "~",
        ast.Starred: "*",
        ast.BinOp: "an operator",
        ast.NamedExpr: ":=",
        ast.JoinedStr: "a text",
    }
    return words.get(type(node), type(node).__name__.lower())


def free_names(expressions: Iterable[Expression]) -> tuple[str, ...]:
    """Return the names of several expressions in order of their first appearance."""
    return tuple(dict.fromkeys(name for e in expressions for name in e.names))
