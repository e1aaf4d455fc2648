"""What a launch's accesses ask of the caches, and of the memory behind them."""

from kernelwright.metal.device.base import BufferTraffic, Counters
from kernelwright.metal.perf.profile import ChipProfile
from kernelwright.metal.perf.residency import SIMD_WIDTH

_SECTOR_BYTES = 32
_SMALL = 0.25
"""Of the cache: a buffer of such a size stays there whatever else passes."""
_WIDEST_ACCESS = 16
"""Bytes that a lane reads or writes at once at most."""
_USUAL_PART = 4
"""Bytes of an access where accesses were not counted."""


def memory_bytes(counters: Counters, profile: ChipProfile, in_flight: float) -> int:
    """Return what reaches memory: every sector once, and what no longer is in the cache again.

    Threadgroups run in order, so that what is in use at a time is the share `in_flight` of what
    they touch together. Up to the cache's size all of it is still there when it is asked for
    again, from twice its size on none.
    """
    cache = profile.last_cache_bytes
    kept = _kept(in_flight * sum(_unique_bytes(b) for b in counters.buffers), cache)
    total = 0.0
    for buffer in counters.buffers:
        unique = _unique_bytes(buffer)
        total += unique
        if unique > _SMALL * cache:
            total += _again_bytes(buffer) * (1 - kept)
    return round(total)


def cache_bytes(counters: Counters) -> int:
    """Return what passes between the cores and the cache that they share, in whole sectors."""
    return sum(_read_bytes(b) + _written_bytes(b) for b in counters.buffers)


def _read_bytes(buffer: BufferTraffic) -> int:
    is_dense = buffer.unique_bytes_read == _SECTOR_BYTES * buffer.unique_sectors_read
    return _moved_bytes(buffer.bytes_read, buffer.sectors_read, buffer.reads, is_dense=is_dense)


def _written_bytes(buffer: BufferTraffic) -> int:
    is_dense = buffer.unique_bytes_written == _SECTOR_BYTES * buffer.unique_sectors_written
    written, sectors = buffer.bytes_written, buffer.sectors_written
    return _moved_bytes(written, sectors, buffer.writes, is_dense=is_dense)


def _kept(in_use: float, cache: int) -> float:
    """Return the share of what was read before that is still in a cache."""
    return min(max(2 - in_use / cache, 0.0), 1.0)


def _moved_bytes(nbytes: int, sectors: int, accesses: int, *, is_dense: bool) -> int:
    """Return the bytes of all sectors, parts of one access taken together, as a GPU takes them.

    The simulator's compiler may split an access of 16 bytes into parts; each then touches the
    sectors of the whole. What lanes ask for further apart touches more sectors than such parts do.
    """
    whole = _SECTOR_BYTES * sectors
    width = nbytes / (accesses * SIMD_WIDTH) if accesses else _USUAL_PART
    return nbytes if is_dense and whole * width <= _WIDEST_ACCESS * nbytes else whole


def _again_bytes(buffer: BufferTraffic) -> int:
    """What is asked for beyond the first time, no more than the sectors that lanes share."""
    again = max(buffer.bytes_read - buffer.unique_bytes_read, 0)
    again += max(buffer.bytes_written - buffer.unique_bytes_written, 0)
    return min(again, _SECTOR_BYTES * (buffer.sectors_read + buffer.sectors_written))


def _unique_bytes(buffer: BufferTraffic) -> int:
    return _SECTOR_BYTES * (buffer.unique_sectors_read + buffer.unique_sectors_written)
