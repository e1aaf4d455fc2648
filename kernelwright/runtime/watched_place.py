"""A place that code reads, and whether it holds what it did; part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import collections
import types

from kernelwright.runtime.code_names import (
    _MISSING,
    _PLAIN,
    _attribute,
)


def _holds(what: str, holder: object, key: object, expected: object) -> bool:
    """Say whether a place holds what it did."""
    if what == "item":
        return _item(holder, key) is expected or _original_of(_item(holder, key)) is expected
    if what == "item type":
        return isinstance(_item(holder, key), expected)
    if what == "attr":
        return _attribute(holder, key) is expected
    if what == "attr type":
        return isinstance(_attribute(holder, key), expected)
    if what == "item value":
        return _is_alike(_item(holder, key), expected)
    if what == "attr value":
        return _is_alike(_attribute(holder, key), expected)
    if what == "missing":
        return key not in holder
    if what == "keys":
        return _keys_of(holder) == expected
    if what == "len":
        return len(holder) == expected
    if what == "result":
        return holder() == expected
    if what == "shape":
        return _shape_of(_item(holder, key)) == expected
    if what == "bytes":
        return _bytes_of(holder) == expected
    if what == "equal":
        return holder == expected
    return holder.get(None) is expected


def _is_plain(value: object) -> bool:
    """Say whether a value is plain, or a tuple of such: an equal one may take its place."""
    return isinstance(value, _PLAIN) or (type(value) is tuple and all(map(_is_plain, value)))


def _is_alike(value: object, expected: object) -> bool:
    # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
    return value is expected or (_is_plain(value) and repr(value) == repr(expected))


def _item(holder: object, key: object) -> object:
    try:
        return dict.__getitem__(holder, key) if isinstance(holder, dict) else holder[key]
    except (KeyError, IndexError):
        return _MISSING


def _keys_of(holder: dict) -> tuple:
    kind = collections.OrderedDict if isinstance(holder, collections.OrderedDict) else dict
    return tuple(kind.__iter__(holder))


def _shape_of(value: object) -> tuple:
    return getattr(value, "shape", None), str(getattr(value, "dtype", ""))


def _bytes_of(value: object) -> bytes:
    """Return the content of what shares its memory, such as an array of NumPy's."""
    shape = getattr(value, "shape", ())
    return repr((shape, str(getattr(value, "dtype", "")))).encode() + bytes(
        value.tobytes() if hasattr(value, "tobytes") else value
    )


def _original_of(value: object) -> object:
    """Return the function that kernels stand before; anything else as it is."""
    if hasattr(type(value), "__kernelwright_original__"):
        return value.__kernelwright_original__
    if type(value) is types.FunctionType and "serves" in vars(value):
        return vars(value).get("reference", value)
    return value
