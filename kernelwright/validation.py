"""Says in one sentence what a record refused: what was expected, what was found, what to do."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A light module: it serves where pydantic is not wanted at import.
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError

_MOST = 80
"""Characters of a value that a sentence repeats."""
LARGEST = 1e12
"""Of the numbers that people give: nothing here counts further, and no column overflows."""
MOST_JOBS = 1024
"""Candidates at once, on the largest of machines."""
_IDENTIFIER = "[A-Za-z_]"
_COUNTED = {
    "too_short": ("at least", "min_length", "items"),
    "too_long": ("at most", "max_length", "items"),
    "string_too_short": ("at least", "min_length", "characters"),
    "string_too_long": ("at most", "max_length", "characters"),
}

_KINDS = {
    "tuple_type": "a list",
    "list_type": "a list",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "dict_type": "a table of names and values",
    "model_type": "a table of names and values",
}
"""What a value has to be, where pydantic speaks of Python's types."""


def sentence_of(
    error: "ValidationError | RequestValidationError",
    *,
    names: Mapping[str, str] | None = None,
    repeats_input: bool = True,
) -> str:
    """Return a sentence on the first fault.

    Args:
        error: of a record, or of a request to the API.
        names: what users call a place, such as `budget` for `caps.dollars`.
        repeats_input: False where what was given may be a secret.
    """
    first = error.errors()[0]
    kind, place = first["type"], _place(first["loc"])
    place = (names or {}).get(place, place)
    found = f", found {shown(first['input'])}" if repeats_input else ""
    if kind == "missing":
        return f"expected {place or 'a value'}, found none; add it."
    if kind == "extra_forbidden":
        return f"{place} is nothing that is known here; leave it out."
    if kind == "json_invalid":
        fault = str(first["msg"]).removeprefix("Invalid JSON: ")
        return f"expected JSON, found none that can be read ({fault}); correct it."
    if kind == "value_error":
        # Our own words, which say what was found.
        told = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        return f"{place}: {told}." if place else f"{told}."
    return f"expected {place or 'it'} to be {reason_of(first)}{found}."


def words_of(error: Exception) -> str:
    """Return what people read of an error; of a record's refusal, the sentence on it."""
    from pydantic import ValidationError

    return sentence_of(error) if isinstance(error, ValidationError) else str(error)


def refusal_of(error: "ValidationError") -> str:
    """Return a sentence on a value whose place stands before it, as in `for '--jobs': …`."""
    first = error.errors()[0]
    if first["type"] == "value_error":
        return f"{reason_of(first)}."
    return f"expected {reason_of(first)}, found {shown(first['input'])}."


def reason_of(fault: Mapping[str, object]) -> str:
    """Return what a fault's value had to be, as it stands behind `to be`."""
    kind, context = str(fault["type"]), fault.get("ctx")
    limits = context if isinstance(context, Mapping) else {}
    if kind == "string_pattern_mismatch":
        is_name = _IDENTIFIER in str(limits.get("pattern"))
        return (
            "a name of at most 64 letters, digits and underscores that begins with no digit"
            if is_name
            else "a text of another form"
        )
    if kind in _COUNTED:
        bound, limit, unit = _COUNTED[kind]
        count = limits.get(limit, "some")
        return f"of {bound} {count} {unit.removesuffix('s') if count == 1 else unit}"
    if kind in _KINDS:
        return _KINDS[kind]
    told = str(fault["msg"])
    for beginning in ("Input should be ", "Value error, "):
        told = told.removeprefix(beginning)
    return told.rstrip(".")


def _place(steps: object) -> str:
    place = ""
    for step in steps if isinstance(steps, tuple | list) else ():
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return place.removeprefix(".")


def json_of(text: str) -> object:
    """Read JSON that somebody wrote.

    Raises:
        ValueError: it is none, or nests too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists and tables nest too deeply.") from None


def shown(value: object) -> str:
    """Return what was found, as a sentence repeats it: as Python writes it, cut where it is long.

    A text keeps both of its ends.
    """
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        # Nested too deeply, or a number of more digits than Python writes.
        return f"a {type(value).__name__} that is too large to show"
    half = _MOST // 2
    return text if len(text) <= _MOST else f"{text[:half]}…{text[-half:]}"
