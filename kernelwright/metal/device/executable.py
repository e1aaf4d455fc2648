"""What every device offers: compile a bound program, run it on arrays, say what happened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from kernelwright.metal.device.base import Condition, Counters, DeviceInfo, RunOptions
from kernelwright.metal.diagnostic import Record, SanitizerReport
from kernelwright.metal.kernel import BoundProgram

Array = NDArray[np.generic]
"""A NumPy array; bfloat16 is `ml_dtypes.bfloat16`."""


class RunResult(Record):
    """What one run left behind."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    outputs: tuple[Array, ...]
    canaries_intact: tuple[bool, ...] = ()
    """Per output; empty where the device cannot place canaries."""
    inputs_intact: bool = True
    reports: tuple[SanitizerReport, ...] = ()
    counters: tuple[Counters, ...] = ()
    """Per launch, when asked for."""
    conditions: tuple[Condition, ...] = ()
    """Of all launches, of a watching run."""
    elapsed_s: float = 0.0


class Executable(Protocol):
    """A compiled program; runs as often as wanted."""

    def run(self, inputs: Sequence[Array], options: RunOptions) -> RunResult:
        """Run once on private copies of `inputs`.

        Raises:
            LaunchError: the launch is impossible on this device (limits, timeout).
            DeviceError: the machine failed, not the candidate.
        """


@dataclass(frozen=True)
class Changes:
    """What one input holds elsewhere in each of many runs, beside what all of them share."""

    place: int
    """The input's."""
    positions: NDArray[np.intp]
    """In the flat input, a row for each run."""
    values: Array

    def applied(self, shared: Array, run: int) -> Array:
        """Return the input of one run."""
        made = shared.copy()
        made.reshape(-1)[self.positions[run]] = self.values[run]
        return made


@runtime_checkable
class RepeatingExecutable(Protocol):
    """An executable that runs many times on nearly the same inputs at little cost."""

    def run_changed(
        self, inputs: Sequence[Array], changes: Sequence[Changes], options: RunOptions
    ) -> RunResult:
        """Run once for each row of `changes`; outputs hold those of all runs, stacked.

        Raises:
            LaunchError: a launch is impossible on this device (limits, timeout).
            DeviceError: the machine failed, not the candidate.
        """


class Device(Protocol):
    """Where programs compile and run."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> Executable:
        """Compile every kernel of the program.

        Raises:
            CompileError: a kernel does not compile; its diagnostics carry the candidate's lines.
            DeviceError: the compiler or the driver failed.
        """
