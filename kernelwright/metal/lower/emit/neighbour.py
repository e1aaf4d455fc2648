"""Neighbouring elements at fixed places: which of them one access reads, and of what type."""

from collections.abc import Iterator, Sequence

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Load
from kernelwright.metal.target.msl.spelling import MSL_TYPE

# Packed vectors are aligned like their elements, so a run may begin anywhere
# (Metal Shading Language Specification, section 2.2.3).
PACKED = {
    Dtype.FLOAT32: "packed_float",
    Dtype.FLOAT16: "packed_half",
    Dtype.BFLOAT16: "packed_bfloat",
    Dtype.INT32: "packed_int",
    Dtype.UINT32: "packed_uint",
    Dtype.INT16: "packed_short",
    Dtype.UINT16: "packed_ushort",
    Dtype.INT8: "packed_char",
    Dtype.UINT8: "packed_uchar",
}
"""What Metal calls several numbers side by side, less their count."""
WIDTHS = (2, 4, 8)
"""Elements of a packed vector; Metal's own end at four."""
WIDEST_PACKED = 4
_ACCESS_BYTES = 16
"""The most that one access reads, on Apple's chips and NVIDIA's."""


def packed(dtype: Dtype, width: int) -> str:
    """Return the type of `width` neighbours."""
    if width > WIDEST_PACKED:
        return f"packed_eight<{MSL_TYPE[dtype]}>"
    return f"{PACKED[dtype]}{width}"


def neighbours(loads: Sequence[Load]) -> Iterator[tuple[Load, ...]]:
    """Yield loads that stand side by side, wherever that is, and begin where a run is aligned.

    As few as 2 and as many as 8, widest first.
    """
    alike: dict[tuple[object, ...], dict[int, Load]] = {}
    for load in loads:
        if load.stored in PACKED and not load.places:
            alike.setdefault((load.array, load.offset.terms), {})[load.offset.offset] = load
    for at in alike.values():
        for width in reversed(WIDTHS):
            yield from _groups(at, width)


def _groups(at: dict[int, Load], width: int) -> Iterator[tuple[Load, ...]]:
    """Yield groups of one width, and take them out of the loads by place."""
    for first in sorted(at):
        places = range(first, first + width)
        if not at.keys() >= set(places) or not _is_aligned(at[first], width):
            continue
        if width * at[first].stored.itemsize <= _ACCESS_BYTES:
            yield tuple(at.pop(place) for place in places)


def _is_aligned(load: Load, width: int) -> bool:
    factors = (factor for _, factor in load.offset.terms)
    return all(number % width == 0 for number in (load.offset.offset, *factors))
