"""Timing in a candidate's worker: what is asked, what comes back, and the laboratory between."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.baseline import baselines_of
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.mlx_laboratory import MlxLaboratory
from kernelwright.evaluator.timing import Comparison, Measurements, Order
from kernelwright.evaluator.wire import Reply
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.array import to_mlx
from kernelwright.metal.device.base import Array, Device, Executable
from kernelwright.metal.device.execution import MlxExecutable

_MOST_OBSERVED = 8
"""Checked outputs that travel back from one order; each is a full set of outputs."""


@dataclass(frozen=True)
class SetUp:
    """Make the laboratory for a compiled program; the reply's header has the copy bandwidth."""

    key: str
    graph: Graph
    inputs: tuple[tuple[Array, ...], ...]
    """One set per slot."""
    plan: TimingPlan
    seed: int


@dataclass(frozen=True)
class Measure:
    """Carry out an order in the laboratory that was set up last."""

    order: Order


def set_up(device: Device, executable: Executable, request: SetUp) -> tuple[MlxLaboratory, Reply]:
    """Build the laboratory and measure what a copy moves.

    Raises:
        DeviceError: the device does not measure time.
    """
    if not isinstance(executable, MlxExecutable):
        raise DeviceError(f"the {device.info.name} device measures no time.")
    slots = request.inputs
    mx.set_default_device(mx.gpu)
    laboratory = MlxLaboratory(
        device=device,
        # As people use it: recorded once, like the compiled baseline.
        candidate=mx.compile(lambda *arrays: executable.graph(arrays)),
        baselines=baselines_of(request.graph),
        make_inputs=lambda slot: [to_mlx(a) for a in slots[slot % len(slots)]],
        plan=request.plan,
        input_bytes=sum(t.nbytes for t in request.graph.input_types),
        output_bytes=sum(t.nbytes for t in request.graph.output_types),
        seed=request.seed,
    )
    return laboratory, Reply({"bytes_per_s": laboratory.bytes_per_s()})


def measure(laboratory: MlxLaboratory, request: Measure) -> Reply:
    """Carry out an order and describe what came of it."""
    measured = laboratory.measure(request.order)
    observed = measured.observed[:_MOST_OBSERVED]
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
            "slots": [slot for slot, _ in observed],
        },
        tuple(array for _, outputs in observed for array in outputs),
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
