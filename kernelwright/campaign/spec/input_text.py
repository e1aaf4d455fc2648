"""Inputs as people write them: types, named sizes, ranges of sizes, and plain Python values."""

import ast
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import mlx.core as mx

from kernelwright.annotation import Example
from kernelwright.campaign.spec.input_nest import (
    INNER_MEMBER,
    INNER_RECORD,
    INNER_TYPE,
    read_nest,
    replaced,
    values_in,
    written_member,
    written_nest,
)
from kernelwright.errors import InputError, UsageError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.wiring import LARGEST_SIZE, MOST_ELEMENTS
from kernelwright.validation import shown

FREE_SIZE = 128
"""Stands for a named size that nobody sets."""
_NAME = r"[A-Za-z_]\w*"
_EXTENT = rf"\s*(?:\d+(?:\.\.\d+)?|{_NAME})\s*"
_TYPE = re.compile(
    rf"(?:(?P<name>{_NAME})=)?(?P<dtype>\w+)\[(?P<shape>\s*|{_EXTENT}(?:,{_EXTENT})*,?\s*)\]"
)
_CONSTANTS = {"true": "True", "false": "False", "none": "None"}
_VALUE = re.compile(rf"(?:(?P<name>{_NAME})=)?(?P<value>.+)", flags=re.DOTALL)


@dataclass(frozen=True)
class _Type:
    dtype: Dtype
    extents: tuple[str, ...]

    def at(self, sizes: Mapping[str, int], *, least: bool) -> TensorType:
        shape = tuple(_size(e, sizes, least=least) for e in self.extents)
        if max(shape, default=1) > LARGEST_SIZE or prod(shape) > MOST_ELEMENTS:
            raise UsageError(
                f"expected sizes that fit a machine's memory, found {list(shape)}; choose smaller."
            )
        return TensorType(shape, self.dtype)

    @property
    def has_range(self) -> bool:
        return any(".." in extent for extent in self.extents)


def read_inputs(
    texts: Sequence[str], parameters: Sequence[str] | None = None, home: str = ""
) -> list[Example]:
    """Read inputs such as `f16[n,64]`, `mask=bool[16,16]`, `n=3` or `f16[1..4096,64]`.

    A range stands for its two ends: two examples, the larger first. A name that is set, as by
    `n=3`, is a size wherever it stands in a type, and an argument where the function has such a
    parameter, or no type has such a size. The classes of records are those of the module `home`
    before all others.

    Raises:
        UsageError: one of them is neither a type nor a value.
    """
    read = [_read(text, home) for text in texts]
    values = {name: v for name, v in read if name is not None and not isinstance(v, _Type)}
    sizes = {n: v for n, v in values.items() if type(v) is int}
    types = [found for _, value in read for found in _types_in(value)]
    used = {extent for type_ in types for extent in type_.extents if not extent[0].isdigit()}
    for name in used & values.keys() - sizes.keys():
        raise UsageError(
            f"expected a whole number for the size {name!r}, found {shown(values[name])}."
        )
    _check_names(values, used, parameters)
    ends = [False, True] if any(t.has_range for t in types) else [False]
    return [_example(read, sizes, used, parameters, least=least) for least in ends]


def _check_names(
    values: Mapping[str, object], used: set[str], parameters: Sequence[str] | None
) -> None:
    """Refuse a misspelt size: a number that no type and no parameter has a place for."""
    free = used - values.keys()
    stray = [n for n in values if n not in used and n not in (parameters or ())]
    if free and stray and parameters is not None:
        raise UsageError(
            f"expected a size for {', '.join(sorted(free))}, found {stray[0]}="
            f"{shown(values[stray[0]])}, "
            "which is no size in a type and no parameter; check the name."
        )


def assumed_sizes(texts: Sequence[str]) -> tuple[str, ...]:
    """Say in a sentence of each size that nobody sets what it is taken for."""
    # Types alone are read: the classes around them are known where the inputs are read.
    read = [_read(type_)[1] for text in texts for type_ in INNER_TYPE.findall(text)]
    extents = [e for found in read if isinstance(found, _Type) for e in found.extents]
    set_ = (_VALUE.fullmatch(text.strip()) for text in texts if not is_type(text))
    known = {match["name"] for match in set_ if match}
    free = dict.fromkeys(e for e in extents if not e[0].isdigit() and e not in known)
    return tuple(
        f"the size {name} is {FREE_SIZE}, for nothing sets it; add -i {name}=… for another."
        for name in free
    )


def _example(
    read: Sequence[tuple[str | None, object]],
    sizes: Mapping[str, int],
    used: set[str],
    parameters: Sequence[str] | None,
    *,
    least: bool,
) -> Example:
    positional, named = [], []
    for name, value in read:
        made = replaced(value, lambda leaf: _at(leaf, sizes, least=least))
        if name is None:
            positional.append(made)
        elif isinstance(value, _Type) or name not in used or name in (parameters or ()):
            named.append((name, made))
    return Example(tuple(positional), tuple(named))


def _at(leaf: object, sizes: Mapping[str, int], *, least: bool) -> object:
    return leaf.at(sizes, least=least) if isinstance(leaf, _Type) else leaf


def _types_in(value: object) -> list[_Type]:
    return [leaf for leaf in values_in(value) if isinstance(leaf, _Type)]


def _read(text: str, home: str = "") -> tuple[str | None, object]:
    if match := _TYPE.fullmatch(text.strip()):
        return match["name"], _type(match)
    match = _VALUE.fullmatch(text.strip())
    try:
        assert match is not None
        value = match["value"].strip()
        constant = _CONSTANTS.get(value.lower(), value)
        if any(p.search(constant) for p in (INNER_TYPE, INNER_RECORD, INNER_MEMBER)):
            return match["name"], read_nest(constant, _inner_type, home)
        return match["name"], ast.literal_eval(constant)
    except (AssertionError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise UsageError(
            f"expected an input such as 'bf16[2048,4096]', 'mask=bool[16,16]', 'f16[1..4096,64]' "
            f"or 'n=3', or text in quotes such as \"mode='sum'\", found {shown(text)}."
        ) from None


def _inner_type(text: str) -> _Type:
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"no type: {text}")
    return _type(match)


def _type(match: re.Match[str]) -> _Type:
    extents = tuple(e.strip() for e in match["shape"].split(",") if e.strip())
    ranges = [[int(end) for end in e.split("..")] for e in extents if ".." in e]
    backwards = [ends for ends in ranges if ends[0] > ends[1]]
    if backwards:
        found = "..".join(map(str, backwards[0]))
        raise UsageError(f"expected a range from small to large, found {shown(found)}.")
    return _Type(_dtype(match["dtype"]), extents)


def _dtype(text: str) -> Dtype:
    try:
        return Dtype.parse(text)
    except InputError as e:
        raise UsageError(str(e)) from e


def _size(extent: str, sizes: Mapping[str, int], *, least: bool) -> int:
    if ".." in extent:
        return int(extent.split("..")[0 if least else 1])
    if extent[0].isdigit():
        return int(extent)
    size = sizes.get(extent, FREE_SIZE)
    if size < 0:
        raise UsageError(f"expected sizes of at least 0, found {extent}={size}.")
    return size


def is_type(value: object) -> bool:
    """Say whether a value is a type, or a text that is one."""
    return isinstance(value, TensorType) or (
        isinstance(value, str) and _TYPE.fullmatch(value.strip()) is not None
    )


def read_type(text: str) -> object:
    """Return the type that a text is; one that is no type, such as the name of a mode, itself."""
    found = _TYPE.fullmatch(text.strip()) or "[" in text
    if not found:
        return text
    (call, *_) = read_inputs([text])
    return call.inputs[0] if call.inputs else call.keywords[0][1]


def written(call: Example) -> tuple[str, ...]:
    """Write a call's inputs as people do; nothing where one has no text, such as an own object.

    `read_inputs` reads the same call from it.
    """
    try:
        positional = map(written_value, call.inputs)
        return (*positional, *(f"{name}={written_value(value)}" for name, value in call.keywords))
    except TypeError:
        return ()


def written_value(value: object) -> str:
    """Write one input: an array by its type, a number or a text as Python has it, a nest of them.

    Raises:
        TypeError: it has no text.
    """
    if isinstance(value, mx.array):
        try:
            dtype = Dtype.parse(str(value.dtype).rpartition(".")[2])
        except InputError as e:
            raise TypeError(str(e)) from e
        return str(TensorType(tuple(value.shape), dtype))
    if is_type(value):
        return str(value)
    if isinstance(value, enum.Enum):
        return written_member(value)
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    return written_nest(value, written_value)
