"""The runtime's C interface: records that cross it, and how a launch is started and ended."""

import ctypes
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.counters import BlockRecord, BlockTally, SiteTally, Tally
from kernelwright.metal.device.simulator.record import Code, UInt3
from kernelwright.metal.device.simulator.sanitizer import RawReports
from kernelwright.metal.diagnostic import CompileError, Diagnostic

IN_PLACE, COPIED, DISCARDED = 0, 1, 2
"""`Fences` of fence.h."""
TIMEOUT = 1
"""`Failure` of launch.h: the launch was interrupted from here."""
_TICK_S, _SHORTEST_TICK_S = 0.1, 0.001
# What the loaders of Linux and macOS say of a function without a body; C++ puts its name's length
# before it.
_UNDEFINED = re.compile(r"(?:undefined symbol: |[Ss]ymbol not found[^']*'_?)(\w+)")
_MANGLED = re.compile(r"_ZN?(\d+)(\w+)")


class RawBuffer(ctypes.Structure):
    """`Buffer` of launch.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("itemsize", ctypes.c_uint32),
        ("writable", ctypes.c_uint32),
        ("initialised", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
        ("taken", ctypes.c_void_p),
    )


class RawArgument(ctypes.Structure):
    """`Argument` of launch.h."""

    _fields_ = (("size", ctypes.c_uint64), ("itemsize", ctypes.c_uint64))


class RawCode(ctypes.Structure):
    """`Code` of launch.h."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("wide", ctypes.c_void_p),
        ("vet", ctypes.c_void_p),
        ("waits", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class RawRequest(ctypes.Structure):
    """`Request` of launch.h."""

    _fields_ = (
        ("code", RawCode),
        ("uncounted", RawCode),
        ("buffers", ctypes.POINTER(RawBuffer)),
        ("arguments", ctypes.POINTER(RawArgument)),
        ("buffer_count", ctypes.c_uint32),
        ("argument_count", ctypes.c_uint32),
        ("grid", UInt3),
        ("threadgroup", UInt3),
        ("workers", ctypes.c_uint32),
        ("sanitizes", ctypes.c_uint32),
        ("counts", ctypes.c_uint32),
        ("poison", ctypes.c_uint32),
        ("vets", ctypes.c_uint32),
        ("sample", ctypes.c_uint32),
        ("order_seed", ctypes.c_uint64),
        ("threadgroup_bytes", ctypes.c_uint64),
        ("reports", ctypes.POINTER(RawReports)),
        ("tally", ctypes.POINTER(Tally)),
        ("blocks", ctypes.POINTER(BlockTally)),
        ("block_count", ctypes.c_uint64),
        ("block_records", ctypes.POINTER(BlockRecord)),
        ("sites", ctypes.POINTER(SiteTally)),
        ("sample_seed", ctypes.c_uint64),
        ("work_limit", ctypes.c_uint64),
        ("group_work_limit", ctypes.c_uint64),
        ("unset_thread", ctypes.c_uint64),
        ("unset_threads", ctypes.c_uint64),
        ("unset_first", ctypes.c_uint32),
        ("unset_count", ctypes.c_uint32),
        ("unset_word", ctypes.c_uint32),
        ("tracks_bytes", ctypes.c_uint32),
        ("fences", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class RawOutcome(ctypes.Structure):
    """`Outcome` of launch.h."""

    _fields_ = (
        ("failure", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("thread", UInt3),
        ("elapsed_s", ctypes.c_double),
        ("work", ctypes.c_uint64),
        ("waits", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Performed:
    """How a launch went."""

    outcome: RawOutcome
    work_s: float
    """Processor time that this process has spent on it, of all cores together."""
    is_spent: bool = False
    """It was interrupted, because it had spent the processor time that it was lent."""
    is_late: bool = False
    """It was interrupted by the clock on the wall."""


def processor_s() -> float:
    """Return the processor time that this process has had."""
    return time.process_time()


def perform(
    runtime: ctypes.CDLL, request: RawRequest, *, loan_s: float, deadline: float
) -> Performed:
    """Run a launch to its end, or until it has spent the processor time that it is lent.

    Args:
        runtime: Where it runs.
        request: What runs.
        loan_s: Seconds of processor time, of all cores together; infinite where there is no end.
        deadline: When the clock on the wall, `time.monotonic`, ends it in any case.

    Raises:
        DeviceError: the launch could not start.
    """
    runtime.kw_start.restype = ctypes.c_void_p
    team = ctypes.c_void_p(runtime.kw_start(ctypes.byref(request)))
    if not team:
        raise DeviceError("the simulator cannot start a launch: memory ran out.")
    outcome, is_late, has_ended = RawOutcome(), False, False
    started_s = processor_s()
    try:
        # In ticks, so that an interrupt from the keyboard is seen.
        while (rest_s := loan_s - (processor_s() - started_s)) > 0 and not is_late:
            # As soon as it can be spent, were every core at work on it.
            tick_s = min(max(rest_s / (request.workers or 1), _SHORTEST_TICK_S), _TICK_S)
            if has_ended := bool(runtime.kw_wait(team, int(1000 * tick_s) + 1)):
                break
            is_late = time.monotonic() > deadline
    finally:
        work_s = processor_s() - started_s
        runtime.kw_finish(team, ctypes.byref(outcome))
    is_cut = not has_ended and outcome.failure == TIMEOUT
    return Performed(outcome, work_s, is_spent=is_cut and not is_late, is_late=is_cut and is_late)


@lru_cache(maxsize=4096)
def load_library(library: Path) -> ctypes.CDLL:
    """Load a compiled kernel, or return it where it is loaded already.

    Raises:
        CompileError: the text uses a function that it does not define.
        DeviceError: the library does not load.
    """
    try:
        return ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
    except OSError as e:
        if (undefined := _UNDEFINED.search(str(e))) is not None:
            # The text's fault, which Metal finds when it links.
            raise CompileError((_undefined(undefined[1]),)) from e
        raise DeviceError(f"a compiled kernel does not load: {e}.") from e


def _undefined(symbol: str) -> Diagnostic:
    mangled = _MANGLED.match(symbol)
    name = mangled[2][: int(mangled[1])] if mangled else symbol
    if name.startswith("__"):
        # A function of the compiler's own library, such as of 128-bit floats.
        return Diagnostic(message=f"a type or an operation needs {name}, which Metal has not.")
    return Diagnostic(message=f"{name} is used and has no definition; define it in the header.")


@lru_cache(maxsize=4096)
def load_code(code: Code) -> RawCode:
    """Load one entry of a compiled kernel; the runtime must have been loaded.

    Raises:
        CompileError: the text uses a function that it does not define.
        DeviceError: the library does not load, or has no such symbol.
    """
    library = load_library(code.library)
    if (entry := _find(library, code.symbol)) is None:
        raise DeviceError(f"the compiled library has no entry {code.symbol!r}.")
    row = _find(library, code.symbol.replace("kw_entry", "kw_row", 1))
    wide = _find_form(code.wide, code.symbol, "kw_wide")
    vet = _find_form(code.vet, code.symbol, "kw_vet")
    return RawCode(entry=entry, row=row, wide=wide, vet=vet, waits=code.waits)


def _find_form(library: Path | None, symbol: str, form: str) -> int | None:
    if library is None:
        return None
    return _find(load_library(library), symbol.replace("kw_entry", form, 1))


def _find(library: ctypes.CDLL, symbol: str) -> int | None:
    """Return the address of a symbol, None where there is none."""
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    except AttributeError:
        return None


def count_blocks(runtime: ctypes.CDLL, entry: int) -> int:
    """Return the number of instrumented basic blocks in the library of an entry."""
    runtime.kw_block_count.restype = ctypes.c_uint32
    return int(runtime.kw_block_count(ctypes.c_void_p(entry)))
