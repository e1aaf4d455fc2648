"""The body of a Python function as assignments and results of the expression language."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType

from kernelwright.errors import InputError
from kernelwright.service.python.authoring.expression import (
    Expression,
    build,
    refused_as_both,
)
from kernelwright.service.python.authoring.intrinsic import Value
from kernelwright.service.python.authoring.meaning import Assignment, Meaning


def meaning_of(function: Callable[..., object], name: str) -> Meaning:
    """Read a function's source and return what it computes.

    Raises:
        InputError: its source is not there, or a line is no part of the language; the sentence
            names the line.
    """
    if not isinstance(function, FunctionType):
        raise InputError(
            f"expected a Python function under @kernelwright.kernel, found {function!r}."
        )
    body, first, file = _source(function)
    parameters, defaults = _parameters(function)
    reader = _Reader(file, first, parameters)
    for statement in body.body:
        reader.read(statement)
    if not reader.results:
        raise InputError(f"expected {function.__name__} to return an expression, found no return.")
    bound = {*parameters, *(line.name for line in reader.lines)}
    constants = _constants(function, reader, bound)
    return Meaning(
        name, parameters, tuple(reader.lines), tuple(reader.results), defaults, constants
    )


def _source(function: FunctionType) -> tuple[ast.FunctionDef, int, str]:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as e:
        raise InputError(
            f"expected the source of {function.__name__}, found none: Python keeps none of what "
            "is typed at its prompt; write it into a file or a notebook, or use "
            "kernelwright.elementwise('…')."
        ) from e
    found = tree.body[0] if tree.body else None
    if not isinstance(found, ast.FunctionDef):
        raise InputError(
            f"expected a function that def makes, found {function.__name__}; for a line, use "
            "kernelwright.elementwise('…')."
        )
    return found, max(first, 1), function.__code__.co_filename


def _parameters(function: FunctionType) -> tuple[tuple[str, ...], dict[str, Value]]:
    defaults: dict[str, Value] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InputError(
                f"expected named parameters of {function.__name__}, found {parameter}."
            )
        if parameter.default is parameter.empty:
            continue
        if not isinstance(parameter.default, int | float):
            raise InputError(
                f"expected a number as the default of {parameter.name} in {function.__name__}, "
                f"found {parameter.default!r}."
            )
        defaults[parameter.name] = parameter.default
    return tuple(inspect.signature(function).parameters), defaults


class _Reader:
    """Reads statement by statement."""

    def __init__(self, file: str, first: int, parameters: Sequence[str]) -> None:
        self._file = file
        self._first = first
        self._known = set(parameters)
        self._called: set[str] = set()
        self.lines: list[Assignment] = []
        self.results: list[Expression] = []

    def read(self, statement: ast.stmt) -> None:
        """Take in one statement."""
        if self.results:
            raise InputError(f"expected nothing after return, found more {self._place(statement)}.")
        match statement:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assign(name, value)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                loaded = ast.copy_location(ast.Name(name, ast.Load()), target)
                self._assign(name, ast.copy_location(ast.BinOp(loaded, op, value), statement))
            case ast.Return(value=ast.Tuple(elts=values)) if values:
                self.results = [self._expression(value) for value in values]
            case ast.Return(value=ast.expr() as value):
                self.results = [self._expression(value)]
            case _:
                raise InputError(
                    "expected assignments to names and a return, found "
                    f"{type(statement).__name__.lower()} {self._place(statement)}; write 'a if c "
                    "else b' for a choice."
                )

    def _assign(self, name: str, value: ast.expr) -> None:
        self.lines.append(Assignment(name, self._expression(value)))
        self._known.add(name)
        if name in self._called:
            raise InputError(refused_as_both(name, self._place(value)))

    def _expression(self, tree: ast.expr) -> Expression:
        made = build(tree, ast.unparse(tree), self._place, known=self._known, may_reduce=True)
        self._called.update(made.calls)
        return made

    def _place(self, node: ast.AST) -> str:
        line = self._first + getattr(node, "lineno", 1) - 1
        return f"in line {line} of {self._file}"


def _constants(
    function: FunctionType, reader: _Reader, bound: Sequence[str] | set[str]
) -> dict[str, Value]:
    """Return the numbers that a body reads from around the function."""
    outside = inspect.getclosurevars(function)
    around = {**outside.globals, **outside.nonlocals}
    found: dict[str, Value] = {}
    expressions = [*(line.expression for line in reader.lines), *reader.results]
    for name in (n for e in expressions for n in e.names if n not in bound):
        value = around.get(name)
        if not isinstance(value, int | float):
            what = f"{value!r}" if name in around else "nothing"
            raise InputError(
                f"expected {name!r} in {function.__name__} to be a parameter, a name assigned "
                f"before, or a number around it, found {what}."
            )
        found[name] = value
    return found
