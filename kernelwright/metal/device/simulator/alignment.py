"""Buffers at addresses that their elements allow, as Metal's are; NumPy promises 16 bytes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from kernelwright.metal.device.base import BUFFER_ALIGNMENT
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.dispatch import address_of
from kernelwright.metal.device.simulator.element import SCALARS
from kernelwright.metal.device.simulator.record import Buffer
from kernelwright.metal.msl.signature import Parameter

_WIDE = re.compile(r"\bu?long[34]\b|\bvec\b|\baligned\b|\balignas\b|\bMETAL_ALIGN\b")
"""What a text aligns to more than 16 bytes, with whatever pointers it comes by it."""
_VECTOR = re.compile(r"(?:metal::)?([a-z]+)([234])")
_USUAL = 16
"""Of structs, matrices and what else the text's words do not tell."""


def may_be_wide(text: str) -> bool:
    """Say whether a text may have elements that are aligned to more than 16 bytes."""
    return _WIDE.search(text) is not None


@contextmanager
def aligned(
    buffers: Sequence[Buffer], parameters: Sequence[Parameter], *, is_wide: bool, is_fenced: bool
) -> Iterator[list[Buffer]]:
    """Lend copies of the arrays whose addresses their types do not allow; write back what changes.

    Args:
        buffers: What a launch is given.
        parameters: What they are bound to, in the same order.
        is_wide: The text may have wider elements than the parameters' types tell.
        is_fenced: The launch writes copies of its own, which are aligned.
    """
    lent = list(buffers)
    for place, (buffer, parameter) in enumerate(zip(buffers, parameters, strict=True)):
        needed = BUFFER_ALIGNMENT if is_wide else _alignment(parameter.type)
        is_own = buffer.writable and is_fenced
        if not is_own and address_of(buffer.data) % needed:
            lent[place] = replace(buffer, data=_copy(buffer.data))
    try:
        yield lent
    finally:
        for buffer, copy in zip(buffers, lent, strict=True):
            if copy is not buffer and buffer.writable:
                np.copyto(buffer.data, copy.data)


def _alignment(type_: str) -> int:
    if type_ in SCALARS:
        # A part of an array may begin anywhere: what the text makes of its address is its matter.
        return SCALARS[type_].itemsize
    found = _VECTOR.fullmatch(type_)
    if found is None or found[1] not in SCALARS:
        return 1 if type_.startswith("packed_") else _USUAL
    lanes = 2 if found[2] == "2" else 4
    return lanes * SCALARS[found[1]].itemsize


def _copy(array: Array) -> Array:
    memory = np.empty(array.nbytes + BUFFER_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % BUFFER_ALIGNMENT
    made = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
