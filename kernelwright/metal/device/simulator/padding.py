"""Which bytes of a buffer's elements no member takes, as the compiler lays them out."""

import ctypes
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernelwright.metal.device.simulator.element import SCALARS
from kernelwright.metal.device.simulator.native import load_library
from kernelwright.metal.device.simulator.record import Code
from kernelwright.metal.msl.signature import Entry, Parameter

_MOST_BYTES = 1 << 16
"""Larger elements are taken to have no padding."""


def taken_bytes(code: Code, entry: Entry, parameter: Parameter) -> NDArray[np.uint8] | None:
    """Return 1 for each byte of a buffer's element that a member takes, 0 for padding.

    None where there is no padding, or the build does not tell. The runtime must have been loaded.
    """
    if parameter.type in SCALARS:
        return None
    bound = [p.name for p in entry.parameters if p.kind != "attribute"]
    return _taken(code, bound.index(parameter.name))


@lru_cache(maxsize=4096)
def _taken(code: Code, place: int) -> NDArray[np.uint8] | None:
    symbol = code.symbol.replace("kw_entry", "kw_padding", 1)
    try:
        take = load_library(code.library)[symbol]
    except AttributeError:
        return None
    take.restype = ctypes.c_uint64
    # The members' addresses are formed in it, as if an element lay there.
    taken = np.zeros(2 * _MOST_BYTES, np.uint8)
    aligned = -taken.ctypes.data % _MOST_BYTES
    taken = taken[aligned : aligned + _MOST_BYTES]
    size = take(
        ctypes.c_uint32(place), ctypes.c_void_p(taken.ctypes.data), ctypes.c_uint64(_MOST_BYTES)
    )
    found: NDArray[np.uint8] = taken[:size].copy()
    return found if size and not found.all() else None
