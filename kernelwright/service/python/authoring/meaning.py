"""What an authored function computes, as a function of MLX: its one definition."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword

import mlx.core as mx
import numpy as np

from kernelwright.errors import InputError
from kernelwright.service.python.authoring.expression import Expression, free_names, parse
from kernelwright.service.python.authoring.intrinsic import REDUCTIONS, Value
from kernelwright.service.python.authoring.wording import quoted

REDUCED = "reduced"
"""What a single reduction's result is called in `finish`."""
ROW_LENGTH = "n"
"""What `finish` calls the length of a row."""


@dataclass(frozen=True)
class Assignment:
    """A line of a function's body: an expression and the name that it binds."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Meaning:
    """A body of assignments and results, with parameters and numbers that stand fast."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Assignment, ...]
    results: tuple[Expression, ...]
    defaults: Mapping[str, Value]
    """Numbers by the name of their parameter."""
    constants: Mapping[str, Value]
    """Numbers by other names."""
    row_of: str = ""
    """The first parameter whose rows `n` is the length of; empty where `n` is not known."""
    drops_row: bool = False
    """True where results are one value a row, without the last axis."""

    @property
    def signature(self) -> inspect.Signature:
        """Return what Python shows of it."""
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        return inspect.Signature(
            [
                inspect.Parameter(name, kind, default=self.defaults.get(name, empty))
                for name in self.parameters
            ]
        )

    def __call__(self, *arguments: Value, **keywords: Value) -> mx.array | tuple[mx.array, ...]:
        """Compute it with MLX.

        Raises:
            InputError: an argument is missing, or neither an array nor a number.
        """
        values: dict[str, Value] = {**self.constants, **self.bound(arguments, keywords)}
        try:
            return self._computed(values)
        except InputError:
            raise
        except Exception as e:
            types = ", ".join(f"{name} {_type(values[name])}" for name in self.parameters)
            raise InputError(
                f"expected arrays of which {self.name} can be computed, found {types}: {_reason(e)}"
            ) from e

    def _computed(self, values: dict[str, Value]) -> mx.array | tuple[mx.array, ...]:
        if self.row_of and ROW_LENGTH not in values:
            row = values[self.row_of]
            values[ROW_LENGTH] = row.shape[-1] if isinstance(row, mx.array) and row.ndim else 1
        for line in self.body:
            values[line.name] = line.expression.run(values)
        made = [self._result(result.run(values), result) for result in self.results]
        return made[0] if len(made) == 1 else tuple(made)

    def bound(
        self, arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> dict[str, Value]:
        """Return the arguments by their parameters.

        Raises:
            InputError: an argument is missing, or neither an array nor a number.
        """
        try:
            bound = self.signature.bind(*arguments, **keywords)
        except TypeError as e:
            wanted = ", ".join(self.parameters)
            raise InputError(f"expected {self.name}({wanted}), found a call with {e}.") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, np.ndarray | np.generic):
                bound.arguments[name] = mx.array(value)  # type: ignore[arg-type]
            elif not isinstance(value, mx.array | int | float):
                raise InputError(
                    f"expected an MLX array or a number as {name} of {self.name}, found "
                    f"{type(value).__name__}."
                )
        return dict(bound.arguments)

    def _result(self, value: Value, result: Expression) -> mx.array:
        if not isinstance(value, mx.array):
            raise InputError(
                f"expected {quoted(result.text)} to read an array, found numbers alone."
            )
        return value.squeeze(-1) if self.drops_row else value


def elementwise_meaning(text: str, name: str, names: Sequence[str] | None) -> Meaning:
    """Return what a line computes, element by element.

    Raises:
        InputError: it is no expression, or reads names that are no parameters.
    """
    expression = parse(text, known=names or ())
    parameters = _parameters(text, names, free_names([expression]))
    return Meaning(name, parameters, (), (expression,), {}, {})


def rowwise_meaning(
    mapped: str | Mapping[str, str],
    reduce: str | Mapping[str, str],
    finish: str | None,
    name: str,
    names: Sequence[str] | None,
) -> Meaning:
    """Return what reductions over rows compute, one after another, and a line that uses them.

    Raises:
        InputError: a part is no expression, a reduction is not known, or names do not match.
    """
    for word, part in (("map", mapped), ("reduce", reduce)):
        if not isinstance(part, str | Mapping):
            raise InputError(f"expected {word} as a text or a dict of texts, found {part!r}.")
    maps = {REDUCED: mapped} if isinstance(mapped, str) else dict(mapped)
    reductions = dict.fromkeys(maps, reduce) if isinstance(reduce, str) else dict(reduce)
    if maps.keys() != reductions.keys() or not maps:
        raise InputError(
            f"expected map and reduce to have the same names, found "
            f"{', '.join(map(str, maps)) or 'none'} "
            f"and {', '.join(map(str, reductions)) or 'none'}."
        )
    if unknown := [r for r in reductions.values() if r not in tuple(REDUCTIONS)]:
        raise InputError(
            f"expected reduce to be one of {', '.join(REDUCTIONS)}, found {unknown[0]!r}."
        )
    if wrong := [key for key in maps if not _is_name(key)]:
        raise InputError(f"expected names for the reductions, found {wrong[0]!r}.")
    if taken := sorted(set(maps).intersection(names or ())):
        raise InputError(
            f"expected a reduction and a parameter to have different names, found {taken[0]!r}."
        )
    own = {*maps, ROW_LENGTH}.difference(names or ())
    lines = [
        Assignment(key, _reduced(text, str(reductions[key]), {*own, *(names or ())}))
        for key, text in maps.items()
    ]
    last = None if finish is None else parse(finish, known={*own, *(names or ())})
    results = [last] if last is not None else [_name(key, lines) for key in maps]
    read = free_names([*(line.expression for line in lines), *results])
    reads = tuple(n for n in read if n not in own)
    _check_order(lines)
    parameters = _parameters(finish or next(iter(maps.values())), names, reads)
    row_of = next((n for n in lines[0].expression.names if n in parameters), "")
    if not row_of:
        raise InputError(
            f"expected {quoted(next(iter(maps.values())))} to read an array, found none."
        )
    return Meaning(
        name,
        parameters,
        tuple(lines),
        tuple(results),
        {},
        {},
        row_of=row_of,
        drops_row=finish is None,
    )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not iskeyword(name)


def _type(value: Value) -> str:
    if not isinstance(value, mx.array):
        return quoted(value)
    return f"{str(value.dtype).rpartition('.')[2]}[{','.join(map(str, value.shape))}]"


def _reason(error: Exception) -> str:
    """Say why MLX refused, and what to do where its sentence does not."""
    words = str(error).rstrip(".")
    if "would result in overflow" in words:
        return f"{words}; write a number that the dtype holds, or widen the array, as int(x)."
    if "for array with 0 dimensions" in words:
        return f"{words}; a row needs an axis, as x.reshape(1) has."
    return f"{words}."


def _reduced(text: str, reduction: str, known: set[str]) -> Expression:
    expression, call = parse(text, known=known), REDUCTIONS[reduction].call
    return Expression(text, expression.names, lambda names: call(expression.run(names)), True)


def _name(name: str, lines: Sequence[Assignment]) -> Expression:
    return Expression(name, (name,), lambda names: names[name], reduces=True)


def _check_order(lines: Sequence[Assignment]) -> None:
    """Refuse a reduction that reads itself or a later one."""
    for place, line in enumerate(lines):
        later = {other.name for other in lines[place:]}
        if early := later.intersection(line.expression.names):
            raise InputError(
                f"expected {quoted(line.expression.text)} to read arrays and earlier reductions, "
                f"found {min(early)!r}, which is not computed yet."
            )


def _parameters(text: str, names: Sequence[str] | None, read: tuple[str, ...]) -> tuple[str, ...]:
    if names is None:
        if not read:
            raise InputError(f"expected {quoted(text)} to read an array, found numbers alone.")
        return read
    if missing := [name for name in read if name not in names]:
        raise InputError(
            f"expected {quoted(text)} to read only {', '.join(names)}, found {missing[0]!r}; "
            "add it to names."
        )
    if wrong := [name for name in names if not _is_name(name)]:
        raise InputError(f"expected names of parameters, found {wrong[0]!r}.")
    if len(set(names)) != len(names):
        raise InputError(f"expected different names of parameters, found {', '.join(names)}.")
    return tuple(names)
