"""Inputs as Python holds them: arrays, plain values, and the texts that the command line takes."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from kernelwright.annotation import Example, examples_of
from kernelwright.campaign.spec.input_nest import names_member
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.errors import InputError

Inputs = object
"""Arrays, types such as `f16[8,512]` and plain values: one, a sequence, or a mapping by name."""
_NAMED = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=(?P<value>[^=].*)", flags=re.DOTALL)
_RECORD = re.compile(r"[A-Za-z_][\w.]*\(\s*(?:\w+\s*=.*)?\)", flags=re.DOTALL)
_NOTHING = Example(())


def decorated_calls(function: Callable[..., object], name: str, home: str) -> list[Example]:
    """Read the examples that decorators left on a function, or on the method that calls an object.

    The classes of records are those of the module `home` before all others.

    Raises:
        InputError: some cannot be read; names each with the line of its decorator.
    """
    found: list[Example] = []
    faults: list[str] = []
    for each in examples_of(function) or examples_of(type(function).__call__):
        try:
            found += calls(each, parameters_of(function), home)
        except InputError as e:
            faults.append(f"the example of {name} in {each.place} cannot be read: {e}")
    if faults:
        raise InputError(" ".join(faults))
    return found


def parameters_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters; none where it does not tell them."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def calls(inputs: Inputs, parameters: Sequence[str] = (), home: str = "") -> list[Example]:
    """Read the inputs of a call; a range of sizes in a type stands for its two ends.

    The classes of records are those of the module `home` before all others.

    Raises:
        InputError: a type is none.
    """
    items: list[_Item]
    if isinstance(inputs, Example):
        items = [_Item.of(value, home) for value in inputs.inputs]
        items += [_Item(name, value, home) for name, value in inputs.keywords]
    elif isinstance(inputs, Mapping):
        items = [_Item(_parameter(name), value, home) for name, value in inputs.items()]
    else:
        values = inputs if isinstance(inputs, tuple | list) else [inputs]
        items = [_Item.of(value, home) for value in values]
    texts = [item.text for item in items if item.is_text]
    read = read_inputs(texts, parameters, home) if texts else [_NOTHING]
    return [_call(items, end) for end in read]


@dataclass(frozen=True)
class _Item:
    """One input and, where it goes by name, its parameter."""

    name: str | None
    value: object
    home: str
    """The module whose classes come before all others."""

    @classmethod
    def of(cls, value: object, home: str) -> "_Item":
        named = _NAMED.fullmatch(value) if isinstance(value, str) else None
        if named is None:
            return cls(None, value, home)
        if _is_written(named["value"], home):
            return cls(named["name"], named["value"], home)
        try:
            return cls(named["name"], ast.literal_eval(named["value"].strip()), home)
        except (ValueError, SyntaxError):
            # A text that is no input of the command line, such as the name of a mode.
            return cls(None, value, home)

    @property
    def is_text(self) -> bool:
        """True for a type, a nest of them, and a number that may be a size in one."""
        if self.name is not None and type(self.value) is int:
            return True
        return isinstance(self.value, str) and _is_written(self.value, self.home)

    @property
    def text(self) -> str:
        """As the command line takes it."""
        return str(self.value) if self.name is None else f"{self.name}={self.value}"


def _is_written(text: str, home: str) -> bool:
    """Say whether a text is an input of the command line; a bare word is the name of a mode."""
    is_record = _RECORD.fullmatch(text.strip()) is not None
    return "[" in text or is_record or names_member(text.strip(), home) or _is_literal(text)


def _is_literal(text: str) -> bool:
    """Say whether a text is a number, a quoted text or a nest of such."""
    try:
        ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return False
    return not text.strip().isidentifier()


def _call(items: Sequence[_Item], read: Example) -> Example:
    """Put what was read in the place of its texts; a size that is no parameter is left out."""
    types, named = iter(read.inputs), dict(read.keywords)
    return Example(
        tuple(next(types) if i.is_text else _array(i.value) for i in items if i.name is None),
        tuple(
            (i.name, named[i.name] if i.is_text else _array(i.value))
            for i in items
            if i.name is not None and (i.name in named or not i.is_text)
        ),
    )


def _parameter(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"expected the inputs by their parameters' names, found {name!r}.")
    return name


def _array(value: object) -> object:
    """Take NumPy's arrays and numbers as MLX does; anything else as it is."""
    if isinstance(value, np.ndarray | np.generic):
        try:
            return mx.array(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError) as e:
            raise InputError(
                f"expected an array that MLX can hold, found {value.dtype} of {value.shape}: {e}."
            ) from e
    return value
