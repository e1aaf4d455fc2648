"""What a launch takes and gives."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelwright.metal.device.base import Counters
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import SanitizerReport
from kernelwright.metal.msl.diagnose import Place


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of one build of a text."""

    library: Path
    symbol: str
    waits: bool
    """A thread may have to wait for others: in a barrier or a simdgroup operation."""
    wide: Path | None = None
    """The library in which the same entry runs 32 lanes at a time, where there is one."""
    vet: Path | None = None
    """The library in which it does so with each access vetted, where a launch is worth that."""
    vet_reads_unset: bool = False
    """What that leaves may hang on variables that nothing has set."""
    threadgroup_bytes: int = 0
    """What its threadgroup variables take where the compiler found that to be too much."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One device or constant argument.

    `data` is C-contiguous and holds what the kernel leaves when `writable`. A buffer that is not
    `initialised` is a fresh output: the sanitizer reports reads before writes, and bytes that
    are never written.
    """

    name: str
    data: Array
    writable: bool = False
    initialised: bool = True
    taken: NDArray[np.uint8] | None = None
    """Of the bytes of an element of the text's type, 1 where a member takes each; None where all
    are taken."""
    place: Place | None = None
    """Where the text declares it."""

    @property
    def members(self) -> bytes:
        """The bytes that members take, and zeros for padding."""
        if self.taken is None:
            return self.data.tobytes()
        found = np.frombuffer(self.data.tobytes(), np.uint8).copy()
        whole = found.size - found.size % self.taken.size
        found[:whole].reshape(-1, self.taken.size)[...] *= self.taken
        return found.tobytes()


@dataclass(frozen=True, slots=True)
class ThreadgroupArgument:
    """Memory for a `[[threadgroup(i)]]` parameter; `itemsize` is the grain that races have."""

    name: str
    size: int
    itemsize: int = 4


@dataclass(frozen=True, slots=True)
class ThreadgroupVariable:
    """What a threadgroup variable's id stands for in the candidate's text."""

    name: str
    file: str = "source"
    line: int = 0


@dataclass(frozen=True, slots=True)
class OwnVariable:
    """A variable of a thread's that its declaration in the candidate's text does not set."""

    name: str
    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a launch tells besides what it wrote."""

    elapsed_s: float
    work_s: float = 0.0
    """Processor time that it took, of all cores together."""
    waits: int = 0
    """How often its threads waited on fibers; 0 where lanes ran in loops."""
    reports: tuple[SanitizerReport, ...] = ()
    counters: Counters | None = None
    parted: bool = False
    """Lanes that ran in loops waited at different places, so that fibers ran them instead."""
    vetted: bool = False
    """Nothing in a sanitized launch was suspicious, so the sanitizer did not have to look."""


class UInt3(ctypes.Structure):
    """`kw_uint3` of abi.h."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))
