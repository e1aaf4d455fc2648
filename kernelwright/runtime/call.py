"""What identifies a call: the shapes and dtypes of its arrays and everything else it was given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mlx.core as mx

Key = tuple[object, ...]
_SIMPLE = (int, float, bool, str, bytes, type(None))


@dataclass
class Flattened:
    """Nested arguments or results: their arrays in order, and what tells nests apart."""

    arrays: list[mx.array] = field(default_factory=list)
    key: list[object] = field(default_factory=list)
    """Hashable: structure, types of arrays, values of everything else."""


def plain_key(args: tuple[object, ...]) -> Key | None:
    """Return the key of a call with arrays only, the common case; None for any other."""
    key: list[object] = []
    for value in args:
        if type(value) is not mx.array:
            return None
        # A dtype is a new object each time, slow to compare; its hash is its number.
        key.append(value.shape)
        key.append(hash(value.dtype))
    return tuple(key)


def flatten(value: object) -> Flattened | None:
    """Take arrays out of tuples, lists and dicts; None where something else hides in them."""
    flat = Flattened()
    return flat if _flatten(value, flat) else None


def _flatten(value: object, flat: Flattened) -> bool:
    if isinstance(value, mx.array):
        flat.arrays.append(value)
        flat.key.append((value.shape, value.dtype))
        return True
    if isinstance(value, _SIMPLE):
        # 1, 1.0 and True are equal in Python and different to a function of arrays.
        flat.key.append((type(value), value))
        return True
    if isinstance(value, tuple | list):
        flat.key.append((type(value), len(value)))
        return all(_flatten(item, flat) for item in value)
    if isinstance(value, Mapping):
        flat.key.append((dict, tuple(value)))
        return all(_flatten(item, flat) for item in value.values())
    return False


def rebuild(like: object, arrays: list[mx.array]) -> object:
    """Return `like` with its arrays replaced, in order; consumes `arrays` from the front."""
    if isinstance(like, mx.array):
        return arrays.pop(0)
    if isinstance(like, tuple | list):
        items = [rebuild(item, arrays) for item in like]
        return _same_kind(like, items)
    if isinstance(like, Mapping):
        return {name: rebuild(item, arrays) for name, item in like.items()}
    return like


def _same_kind(like: tuple[object, ...] | list[object], items: list[object]) -> object:
    if isinstance(like, list):
        return items
    named: Callable[..., object] | None = getattr(like, "_make", None)
    return named(items) if named else tuple(items)
