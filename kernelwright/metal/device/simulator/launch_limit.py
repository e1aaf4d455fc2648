"""What a launch may have: sizes, threads, memory, arrays that can be used in place."""

from collections.abc import Sequence
from math import prod
from operator import index

from kernelwright.metal.device.simulator.failure import excessive_memory
from kernelwright.metal.device.simulator.record import Buffer
from kernelwright.metal.diagnostic import LaunchError

THREADS_PER_THREADGROUP = 1024
MOST_BUFFERS, _MOST_ARGUMENTS = 64, 32


def threadgroups(grid: Sequence[int], threadgroup: Sequence[int]) -> int:
    """Return how many threadgroups a grid has."""
    (x, y, z), (width, height, depth) = grid, threadgroup
    return -(-x // width) * -(-y // height) * -(-z // depth)


def three_sizes(kernel: str, argument: str, value: Sequence[int]) -> tuple[int, int, int]:
    """Return a size along x, y and z.

    Raises:
        LaunchError: it is none.
    """
    try:
        x, y, z = map(index, value)
        if min(x, y, z) >= 1 and max(x, y, z) < 1 << 32:
            return x, y, z
    except (TypeError, ValueError):
        pass
    raise LaunchError(
        f"{kernel}: {argument} is expected to be three integers of 1 to 2^32 - 1, found {value!r}; "
        f"pass (x, y, z), with 1 along an axis that is not used."
    )


def threadgroup_size(kernel: str, value: Sequence[int]) -> tuple[int, int, int]:
    """Return a threadgroup's size, which the limit counts whole even where the grid is smaller.

    Raises:
        LaunchError: it is none, or has too many threads.
    """
    size = three_sizes(kernel, "threadgroup", value)
    refuse_many_threads(kernel, size)
    return size


def refuse_many_threads(kernel: str, threadgroup: Sequence[int]) -> None:
    """Refuse a threadgroup of too many threads.

    Raises:
        LaunchError: it has.
    """
    if (count := prod(threadgroup)) > THREADS_PER_THREADGROUP:
        raise LaunchError(
            f"{kernel}: a threadgroup has at most {THREADS_PER_THREADGROUP} threads, found {count}"
            f"; lower the threadgroup size."
        )


def refuse_excess(
    kernel: str,
    grid: Sequence[int],
    threadgroup: Sequence[int],
    *,
    needed_bytes: int,
    threadgroup_bytes: int,
    arguments: int,
) -> None:
    """Refuse a launch that exceeds a limit of Metal's or of the runtime's.

    Raises:
        LaunchError: it does.
    """
    if min(*grid, *threadgroup) < 1 or max(*grid, *threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: a grid or threadgroup has sizes of 1 to 2^32 - 1, found {grid} and "
            f"{threadgroup}."
        )
    refuse_many_threads(kernel, threadgroup)
    if needed_bytes > threadgroup_bytes:
        raise excessive_memory(kernel, needed_bytes, threadgroup_bytes)
    if threadgroups(grid, threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: the simulator runs fewer than 2^32 threadgroups; lower the grid."
        )
    if arguments > _MOST_ARGUMENTS:
        raise LaunchError(
            f"{kernel}: a launch has at most {_MOST_ARGUMENTS} threadgroup arguments, found "
            f"{arguments}."
        )


def refuse_buffers(kernel: str, buffers: Sequence[Buffer]) -> None:
    """Refuse what a launch cannot use in place.

    Raises:
        LaunchError: a buffer's array is such, or there are more than the runtime takes.
    """
    if len(buffers) > MOST_BUFFERS:
        raise LaunchError(
            f"{kernel}: a launch has at most {MOST_BUFFERS} buffers, found {len(buffers)}."
        )
    for buffer in buffers:
        flags = buffer.data.flags
        if not flags.c_contiguous or (buffer.writable and not flags.writeable):
            raise LaunchError(
                f"{kernel}: buffer {buffer.name} is not a contiguous array that can be written; "
                f"pass a copy."
            )
