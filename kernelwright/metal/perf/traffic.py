"""What a launch's accesses ask of the caches, and of the memory behind them."""

from kernelwright.metal.device.base import BufferTraffic, Counters
from kernelwright.metal.perf.profile import ChipProfile
from kernelwright.metal.perf.residency import Residency

SECTOR_BYTES = 32
_SMALL = 0.25
"""Of the cache: a buffer of such a size stays there whatever else passes."""


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


def cache_bytes(counters: Counters, profile: ChipProfile, place: Residency) -> int:
    """Return what passes between the cores and the cache that they share, in whole sectors.

    A core's own cache serves what its threadgroups read again, as long as all that they read fits
    there. What is small stays there for the threadgroups that follow.
    """
    cache = max(profile.core.own_cache_size - place.groups * counters.threadgroup_bytes, 1)
    threadgroups = max(counters.threadgroups, 1)
    in_use = sum(_group_bytes(b) for b in counters.buffers) / threadgroups * place.groups
    kept = _kept(in_use, cache)
    total = 0.0
    for buffer in counters.buffers:
        once = _group_bytes(buffer)
        if _unique_read_bytes(buffer) <= _SMALL * cache:
            once = min(once, _unique_read_bytes(buffer) * place.cores)
        total += once + (_read_bytes(buffer) - once) * (1 - kept) + _written_bytes(buffer)
    return round(total)


def _group_bytes(buffer: BufferTraffic) -> int:
    """Return what threadgroups read together if each reads nothing twice."""
    read = _read_bytes(buffer)
    return min(SECTOR_BYTES * buffer.group_sectors_read, read) or read


def _unique_read_bytes(buffer: BufferTraffic) -> int:
    return SECTOR_BYTES * buffer.unique_sectors_read


def _read_bytes(buffer: BufferTraffic) -> int:
    return SECTOR_BYTES * buffer.sectors_read


def _written_bytes(buffer: BufferTraffic) -> int:
    return SECTOR_BYTES * buffer.sectors_written


def _kept(in_use: float, cache: int) -> float:
    """Return the share of what was read before that is still in a cache."""
    return min(max(2 - in_use / cache, 0.0), 1.0)


def _again_bytes(buffer: BufferTraffic) -> int:
    """What is asked for beyond the first time, no more than the sectors that lanes share."""
    again = max(buffer.bytes_read - buffer.unique_bytes_read, 0)
    again += max(buffer.bytes_written - buffer.unique_bytes_written, 0)
    return min(again, SECTOR_BYTES * (buffer.sectors_read + buffer.sectors_written))


def _unique_bytes(buffer: BufferTraffic) -> int:
    return SECTOR_BYTES * (buffer.unique_sectors_read + buffer.unique_sectors_written)
