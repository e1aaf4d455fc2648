"""Work for all of the machine's cores: NumPy lets go of Python's lock on large arrays."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.blas_threads import one_blas_thread

Item = TypeVar("Item")
Result = TypeVar("Result")
Values = NDArray[np.float64]
"""Of any kind: the element type is nominal, as it is in the oracle."""

_BATCHES_A_CORE = 4
"""Few, since each costs the interpreter some time, and enough to even out their lengths."""
_MANY_CORES, _SPARED_CORES = 8, 2
_PART_ELEMENTS = 1 << 15
_ROOM_SHARE = 0.25
"""Of the machine's memory, for all large work that goes on at once."""
_sharers = 1
"""Processes among which that memory is divided."""
_here = threading.local()
"""Whose threads large work of this one goes to, in `lane`."""


def cores() -> int:
    """Return how many cores this process works on."""
    return working_cores(usable_cores())


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def working_cores(usable: int) -> int:
    """Return how many cores to work on: of many, some are left to whoever is being timed."""
    return usable if usable < _MANY_CORES else usable - _SPARED_CORES


def memory_bytes() -> int:
    """Return how much memory the machine has, or this process's share of it."""
    return machine_bytes() // _sharers


def machine_bytes() -> int:
    """Return how much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def share_memory(processes: int) -> None:
    """Leave the other judges of this machine their shares, before any large work begins."""
    global _sharers
    _sharers = processes


def in_parts(work: Callable[[Item], Result], parts: Sequence[Item]) -> list[Result]:
    """Return what `work` makes of each part of an array, in order.

    `work` lasts well below a second, and asks for no further parts itself.
    """
    batches = min(len(parts), _BATCHES_A_CORE * cores())
    if batches < 2 or cores() < 2:
        return [work(part) for part in parts]
    edges = [len(parts) * i // batches for i in range(batches + 1)]

    def batch(number: int) -> list[Result]:
        return [work(part) for part in parts[edges[number] : edges[number + 1]]]

    with one_blas_thread():
        made = _lane_pool("parts").map(batch, range(batches))
        return [result for results in made for result in results]


def spread(function: Callable[..., Values], arrays: Sequence[Values]) -> Values:
    """Apply a function that maps equal-shaped arrays element by element, part by part."""
    shape, size = arrays[0].shape, arrays[0].size
    axis = next((i for i, extent in enumerate(shape) if extent > 1), 0)
    step = max(_PART_ELEMENTS * shape[axis] // size, 1) if size > _PART_ELEMENTS else 0
    if not step or step >= shape[axis]:
        return function(*arrays)
    whole = (slice(None),) * axis
    places = [(*whole, slice(i, i + step)) for i in range(0, shape[axis], step)]
    first = function(*(array[places[0]] for array in arrays))
    made = np.empty(shape, first.dtype)
    made[places[0]] = first

    def fill(place: tuple[slice, ...]) -> None:
        with np.errstate(all="ignore"):
            made[place] = function(*(array[place] for array in arrays))

    in_parts(fill, places[1:])
    return made


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what `work` makes of each item, in order, where each takes long.

    `work` may ask for parts and for room, but for nothing side by side.
    """
    if len(items) < 2 or cores() < 2:
        return [work(item) for item in items]
    lane = _lane()
    with one_blas_thread():
        return list(
            _lane_pool("items").map(lambda item: _in_lane(lane, partial(work, item)), items)
        )


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Do something beside what this thread goes on with, such as waiting for a device."""
    lane = _lane()
    return _lane_pool("beside").submit(lambda: _in_lane(lane, work))


def begin_ahead(work: Callable[[], Result]) -> Future[Result]:
    """Do something that nobody waits for yet, on other threads, with all that it asks for itself.

    What is asked for meanwhile, as the comparison of answers, is not queued behind it.
    """
    return _in_lane("ahead", lambda: begin(work))


def _in_lane(lane: str, work: Callable[[], Result]) -> Result:
    before, _here.lane = _lane(), lane
    try:
        return work()
    finally:
        _here.lane = before


def _lane() -> str:
    return getattr(_here, "lane", "")


def _lane_pool(name: str) -> ThreadPoolExecutor:
    return _pool(f"{name} {_lane()}")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Wait until `size` bytes of memory are free beside other large work; do not ask twice."""
    room = _room()
    room.take(size)
    try:
        yield
    finally:
        room.leave(size)


@cache
def _pool(name: str) -> ThreadPoolExecutor:
    # For good: MLX 0.32.4 keeps a stream, with a thread of its own, for every thread that asked.
    return ThreadPoolExecutor(cores(), thread_name_prefix=name)


class _Room:
    """Memory that is shared: who finds too little waits, unless nobody else has any."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + size <= self._size)
            self._used += size

    def leave(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


@cache
def _room() -> _Room:
    return _Room(int(_ROOM_SHARE * memory_bytes()))


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
os.register_at_fork(after_in_child=_room.cache_clear)
