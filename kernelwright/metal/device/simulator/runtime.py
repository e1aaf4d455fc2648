"""Runs a compiled kernel: one fiber per GPU thread, threadgroups over all cores."""

import ctypes
import os
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.counters import BlockTally, Tally, read_counters
from kernelwright.metal.device.simulator.record import (
    Buffer,
    Outcome,
    ThreadgroupArgument,
    ThreadgroupVariable,
    UInt3,
)
from kernelwright.metal.device.simulator.sanitizer import Names, RawReports, read_reports
from kernelwright.metal.diagnostic import LaunchError

THREADGROUP_BYTES = 32768
THREADS_PER_THREADGROUP = 1024
_MOST_BUFFERS, _MOST_ARGUMENTS = 64, 32
_WAITING_SYMBOLS = (b"kw_barrier", b"kw_simdgroup", b"kw_simdgroup_barrier")
_TICK_MS = 100


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("itemsize", ctypes.c_uint32),
        ("writable", ctypes.c_uint32),
        ("initialised", ctypes.c_uint32),
    )


class _Argument(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint64), ("itemsize", ctypes.c_uint64))


class _Request(ctypes.Structure):
    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("arguments", ctypes.POINTER(_Argument)),
        ("buffer_count", ctypes.c_uint32),
        ("argument_count", ctypes.c_uint32),
        ("grid", UInt3),
        ("threadgroup", UInt3),
        ("workers", ctypes.c_uint32),
        ("synchronises", ctypes.c_uint32),
        ("sanitizes", ctypes.c_uint32),
        ("counts", ctypes.c_uint32),
        ("poison", ctypes.c_uint32),
        ("order_seed", ctypes.c_uint64),
        ("reports", ctypes.POINTER(RawReports)),
        ("tally", ctypes.POINTER(Tally)),
        ("blocks", ctypes.POINTER(BlockTally)),
        ("block_count", ctypes.c_uint64),
    )


class _Outcome(ctypes.Structure):
    _fields_ = (
        ("failure", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("thread", UInt3),
        ("elapsed_s", ctypes.c_double),
    )


def launch(
    library: Path,
    entry: str,
    buffers: Sequence[Buffer],
    *,
    kernel: str,
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    threadgroup_arguments: Sequence[ThreadgroupArgument] = (),
    threadgroup_variables: Sequence[ThreadgroupVariable] = (),
    threads: int | None = None,
    options: RunOptions = RunOptions(),  # noqa: B008 (a frozen record)
) -> Outcome:
    """Run `entry` of a compiled library over `grid` threads, on `threads` cores.

    `entry`'s i-th argument is `buffers[i]`; the threadgroup arguments follow. Sanitizing and
    counting need a library that was compiled for it.

    Raises:
        LaunchError: the launch exceeds a limit, does not end in time, overflows a stack or
            touches memory that is not its own.
        DeviceError: the runtime cannot be built, or the library not loaded.
    """
    size = tuple(min(t, g) for t, g in zip(threadgroup, grid, strict=True))
    _check(kernel, grid, size, buffers, threadgroup_arguments)
    runtime = load_runtime()
    loaded = _load(library)
    raw, tally = RawReports(), Tally()
    address = _address(loaded, entry)
    block_count = _block_count(runtime, address) if options.count else 0
    blocks = (BlockTally * block_count)()
    request = _Request(
        entry=address,
        row=_address(loaded, entry.replace("kw_entry", "kw_row", 1), optional=True),
        buffers=_buffers(buffers),
        arguments=_arguments(threadgroup_arguments),
        buffer_count=len(buffers),
        argument_count=len(threadgroup_arguments),
        grid=UInt3(*grid),
        threadgroup=UInt3(*size),
        workers=threads or os.cpu_count() or 1,
        synchronises=options.sanitize or options.count or _synchronises(library),
        sanitizes=options.sanitize,
        counts=options.count,
        poison=options.poison,
        order_seed=options.order_seed,
        reports=ctypes.pointer(raw),
        tally=ctypes.pointer(tally),
        blocks=blocks,
        block_count=block_count,
    )
    outcome = _run(runtime, request, options.timeout_s)
    names = Names(library, buffers, threadgroup_arguments, threadgroup_variables)
    reports = read_reports(raw, names) if options.sanitize else ()
    # A stray access that had to be stopped has a report, which says more than an exception.
    if outcome.failure not in (_INVALID_ADDRESS, _TRAP, _PROTECTION) or not reports:
        _raise_failure(kernel, outcome, options)
    counters = (
        read_counters(kernel, library, grid, size, buffers, tally, list(blocks))
        if options.count
        else None
    )
    return Outcome(elapsed_s=outcome.elapsed_s, reports=reports, counters=counters)


def _run(runtime: ctypes.CDLL, request: _Request, timeout_s: float) -> _Outcome:
    runtime.kw_start.restype = ctypes.c_void_p
    team = ctypes.c_void_p(runtime.kw_start(ctypes.byref(request)))
    if not team:
        raise DeviceError("the simulator cannot start a launch: memory or descriptors ran out.")
    outcome = _Outcome()
    deadline = time.monotonic() + timeout_s
    try:
        # In ticks, so that an interrupt from the keyboard is seen.
        while not runtime.kw_wait(team, _TICK_MS):
            if time.monotonic() > deadline:
                break
    finally:
        runtime.kw_finish(team, ctypes.byref(outcome))
    return outcome


def _check(
    kernel: str,
    grid: tuple[int, ...],
    threadgroup: tuple[int, ...],
    buffers: Sequence[Buffer],
    arguments: Sequence[ThreadgroupArgument],
) -> None:
    if min(*grid, *threadgroup) < 1 or max(*grid, *threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: a grid or threadgroup has sizes of 1 to 2^32 - 1, found {grid} and "
            f"{threadgroup}."
        )
    if (count := prod(threadgroup)) > THREADS_PER_THREADGROUP:
        raise LaunchError(
            f"{kernel}: a threadgroup has at most {THREADS_PER_THREADGROUP} threads, found {count}"
            f"; lower the threadgroup size."
        )
    if prod(-(-g // t) for g, t in zip(grid, threadgroup, strict=True)) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: the simulator runs fewer than 2^32 threadgroups; lower the grid."
        )
    if len(buffers) > _MOST_BUFFERS or len(arguments) > _MOST_ARGUMENTS:
        raise LaunchError(
            f"{kernel}: a launch has at most {_MOST_BUFFERS} buffers and {_MOST_ARGUMENTS} "
            f"threadgroup arguments, found {len(buffers)} and {len(arguments)}."
        )
    for buffer in buffers:
        if not buffer.data.flags.c_contiguous or (
            buffer.writable and not buffer.data.flags.writeable
        ):
            raise LaunchError(
                f"{kernel}: buffer {buffer.name} is not a contiguous array that can be written; "
                f"pass a copy."
            )


def _load(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
    except OSError as e:
        raise DeviceError(f"a compiled kernel does not load: {e}.") from e


def _address(library: ctypes.CDLL, symbol: str, *, optional: bool = False) -> int | None:
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    except AttributeError as e:
        if optional:
            return None
        raise DeviceError(f"the compiled library has no entry {symbol!r}.") from e


def _block_count(runtime: ctypes.CDLL, entry: int | None) -> int:
    runtime.kw_block_count.restype = ctypes.c_uint32
    return int(runtime.kw_block_count(ctypes.c_void_p(entry)))


def _synchronises(library: Path) -> bool:
    """Return whether the library can wait: an undefined symbol's name is in its string table."""
    text = library.read_bytes()
    return any(symbol in text for symbol in _WAITING_SYMBOLS)


def _buffers(buffers: Sequence[Buffer]) -> "ctypes.Array[_Buffer]":
    return (_Buffer * max(len(buffers), 1))(
        *(
            _Buffer(b.data.ctypes.data, b.data.nbytes, b.data.itemsize, b.writable, b.initialised)
            for b in buffers
        )
    )


def _arguments(arguments: Sequence[ThreadgroupArgument]) -> "ctypes.Array[_Argument]":
    return (_Argument * max(len(arguments), 1))(*(_Argument(a.size, a.itemsize) for a in arguments))


_TIMEOUT, _INVALID_ADDRESS, _TRAP, _NO_MEMORY, _PROTECTION = 1, 3, 4, 6, 7
_FAILURES = {
    2: "a thread overflowed its stack of 64 KB; use smaller thread arrays",
    3: "a thread accessed memory of no buffer (address {address:#x}); sanitize it to see where",
    4: "a thread reached code that must not run (a trap); sanitize it to see why",
    7: "a thread used a misaligned vector or an impossible address; sanitize it to see where",
    5: "its threadgroup memory needs {address} bytes, this device has 32768; use less",
}


def _raise_failure(kernel: str, outcome: _Outcome, options: RunOptions) -> None:
    if outcome.failure == 0:
        return
    if outcome.failure == _TIMEOUT:
        raise LaunchError(
            f"{kernel}: it did not end within {options.timeout_s:g} s; look for an endless loop."
        )
    if outcome.failure == _NO_MEMORY:
        raise DeviceError("the simulator has no memory or threads left for a launch.")
    thread = (outcome.thread.x, outcome.thread.y, outcome.thread.z)
    cause = _FAILURES[outcome.failure].format(address=outcome.address)
    raise LaunchError(f"{kernel}: {cause} (thread {thread}).")
