"""Tells functions apart that one line makes, by the values that each of them keeps."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from types import CellType, FunctionType, MethodType, ModuleType

import mlx.core as mx
import numpy as np

from kernelwright.digest import digest
from kernelwright.ir.trace.transformation import transformation_of
from kernelwright.metal.device.array import to_numpy

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type)


def values_kept(function: Callable[..., object]) -> str:
    """Return a digest of a function's closure, defaults and bound arguments."""
    return digest(*_described(function, frozenset()))


def _described(value: object, around: frozenset[int]) -> Iterator[str]:
    """Yield a value as texts; what it is part of itself is left out."""
    if id(value) in around:
        return
    if isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, mx.array | np.ndarray):
        array = to_numpy(value) if isinstance(value, mx.array) else value
        yield f"{array.dtype}{array.shape}"
        yield sha256(array.tobytes()).hexdigest()
    elif isinstance(value, ModuleType):
        yield value.__name__
    else:
        yield type(value).__qualname__
        for part in _parts(value):
            yield from _described(part, around | {id(value)})


def _parts(value: object) -> Iterator[object]:
    if (made := transformation_of(value)) is not None:
        yield from (made.inner, *(made.arguments or ()))
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, FunctionType):
        yield from (value.__qualname__, value.__defaults__, value.__kwdefaults__)
        yield from value.__closure__ or ()
    elif isinstance(value, CellType):
        yield from _contents(value)
    elif isinstance(value, Mapping):
        yield from value.items()
        yield getattr(value, "__dict__", None)
    elif isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, set | frozenset):
        yield from sorted(map(repr, value))
    else:
        yield getattr(value, "__dict__", None)


def _contents(cell: CellType) -> Iterator[object]:
    try:
        yield cell.cell_contents
    except ValueError:
        # A variable that its function has not set yet.
        return
