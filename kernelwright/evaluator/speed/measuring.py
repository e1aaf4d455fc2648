"""Timing in a candidate's worker: what is asked, what comes back, and the laboratory between."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import numpy as np

from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.speed.timing import Comparison, Laboratory, Measurements, Order
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import Array, Device, Executable


@dataclass(frozen=True)
class SetUp:
    """Make the laboratory for a compiled program.

    The reply's header holds a `problem` where MLX has nothing to compare with.
    """

    key: str
    graph: Graph
    inputs: tuple[tuple[Array, ...], ...]
    """One set per slot."""
    plan: TimingPlan
    seed: int


BASELINES = ("eager", "compile", "fast")
"""The ways in which MLX itself may compute a graph."""


@dataclass(frozen=True)
class CompileBaselines:
    """Have MLX compile what it computes a graph with; what it cannot compute is left out."""

    graph: Graph
    names: tuple[str, ...] = BASELINES


@dataclass(frozen=True)
class MeasureBandwidth:
    """Time a copy in the laboratory; the reply's header holds its `bytes_per_s`."""


@dataclass(frozen=True)
class Measure:
    """Carry out an order in the laboratory that was set up last."""

    order: Order


class Workbench(Laboratory, Protocol):
    """A laboratory that also knows its machine's bandwidth."""

    def bytes_per_s(self) -> float:
        """Measure what a plain kernel moves, reads and writes counted."""


@runtime_checkable
class SelfTimed(Protocol):
    """A device that brings a laboratory of its own, with its own clock and baselines."""

    def laboratory(self, executable: Executable, request: SetUp) -> Workbench:
        """Set up for one program."""


def set_up(
    device: Device, executable: Executable, request: SetUp
) -> tuple[Workbench | None, Reply]:
    """Build the laboratory, in which nothing has been timed yet; None where there is no baseline.

    Raises:
        LaunchError: the candidate does not run as it is timed.
        DeviceError: the device does not measure time.
    """
    laboratory: Workbench
    if isinstance(device, SelfTimed):
        laboratory = device.laboratory(executable, request)
    else:
        # MLX's own laboratory takes a tenth of a second to import, and no simulator needs it.
        from kernelwright.evaluator.speed.mlx_laboratory import NoBaselineError, mlx_laboratory

        try:
            laboratory = mlx_laboratory(device, executable, request)
        except NoBaselineError as e:
            return None, Reply({"problem": str(e)})
    return laboratory, Reply({})


def compile_baselines(request: CompileBaselines) -> Reply:
    """Run each baseline once, on zeros."""
    from kernelwright.evaluator.speed.mlx_laboratory import run_baselines

    run_baselines(request.graph, request.names)
    return Reply({})


def measure(laboratory: Laboratory, request: Measure) -> Reply:
    """Carry out an order and describe what came of it."""
    measured = laboratory.measure(request.order)
    return Reply(
        {
            "comparisons": {
                name: {
                    "candidate_ns": c.candidate_ns,
                    "baseline_ns": c.baseline_ns,
                    "rejected_blocks": c.rejected_blocks,
                }
                for name, c in measured.comparisons.items()
            },
            "noise": [float(x) for x in measured.noise],
            "floor_ns": measured.floor_ns,
            "slots": [slot for slot, _ in measured.observed],
        },
        tuple(array for _, outputs in measured.observed for array in outputs),
    )


def measurements_of(reply: Reply) -> Measurements:
    """Read a reply to `Measure` back; the worker is trusted with times, not with verdicts."""
    header = reply.header
    raw = cast("dict[str, dict[str, list[float]]]", header["comparisons"])
    slots = cast("list[int]", header["slots"])
    per_slot = len(reply.arrays) // len(slots) if slots else 0
    return Measurements(
        comparisons={
            name: Comparison(
                tuple(c["candidate_ns"]),
                tuple(c["baseline_ns"]),
                int(cast("int", c["rejected_blocks"])),
            )
            for name, c in raw.items()
        },
        noise=np.asarray(header["noise"], dtype=np.float64),
        floor_ns=float(cast("float", header["floor_ns"])),
        observed=tuple(
            (slot, _outputs(reply.arrays, place, per_slot)) for place, slot in enumerate(slots)
        ),
    )


def _outputs(arrays: Sequence[Array], place: int, count: int) -> tuple[Array, ...]:
    return tuple(arrays[place * count : (place + 1) * count])
