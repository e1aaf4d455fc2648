"""Speed where nothing can be measured: predictions, compared with predictions only."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.evaluator.evaluation import Speedup
from kernelwright.ir.cost import DEFAULT_PROFILE, Profile
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, op_named
from kernelwright.ir.traffic import Traffic, compiled_traffic, eager_traffic
from kernelwright.metal.device.base import Counters

_SECTOR_BYTES = 32
_SPECIAL_FLOPS = 8
"""As the op table counts a transcendental function."""
_MATRIX_FLOPS = 2 * 8**3


@dataclass(frozen=True, slots=True)
class Prediction:
    """A time by a roofline: memory or arithmetic, whichever is longer, and the launches."""

    microseconds: float
    bound: str


def predict_program(counters: Sequence[Counters], profile: Profile = DEFAULT_PROFILE) -> Prediction:
    """Predict a program's time from what its launches were counted to do."""
    times = [_launch(c, profile) for c in counters]
    total = sum(t.microseconds for t in times)
    dominant = max(times, key=lambda t: t.microseconds)
    return Prediction(total, dominant.bound)


def _launch(counters: Counters, profile: Profile) -> Prediction:
    nbytes = sum(
        max(
            _SECTOR_BYTES * (b.sectors_read + b.sectors_written),
            b.unique_bytes_read + b.unique_bytes_written,
        )
        for b in counters.buffers
    )
    flops = (
        counters.float_operations
        + _SPECIAL_FLOPS * counters.special_operations
        + _MATRIX_FLOPS * counters.matrix_operations
    )
    return _roofline(nbytes, flops, 1, profile)


def predict_baselines(graph: Graph, profile: Profile = DEFAULT_PROFILE) -> dict[str, Prediction]:
    """Predict eager MLX and `mx.compile`, each op or fused chain as a perfect kernel."""
    flops = sum(op_named(n.op).flops(Call.of(graph, n)) for n in graph.nodes)
    traffics = {"eager": eager_traffic(graph), "compile": compiled_traffic(graph)}
    return {name: _traffic(traffic, flops, profile) for name, traffic in traffics.items()}


def _traffic(traffic: Traffic, flops: int, profile: Profile) -> Prediction:
    return _roofline(traffic.nbytes, flops, traffic.launches, profile)


def _roofline(nbytes: int, flops: int, launches: int, profile: Profile) -> Prediction:
    parts = {
        "memory": nbytes / profile.bytes_per_us,
        "arithmetic": flops / profile.flops_per_us,
        "launch": launches * profile.launch_us,
    }
    busy = max(parts["memory"], parts["arithmetic"])
    return Prediction(busy + parts["launch"], max(parts, key=lambda part: parts[part]))


def speedups_of(prediction: Prediction, baselines: dict[str, Prediction]) -> tuple[Speedup, ...]:
    """Return predicted ratios; they have no interval, for counting has no noise."""
    found = []
    for name, baseline in baselines.items():
        ratio = baseline.microseconds / max(prediction.microseconds, 1e-9)
        found.append(
            Speedup(
                baseline=name,
                ratio=ratio,
                lower=ratio,
                upper=ratio,
                confidence=1.0,
                kind="predicted",
            )
        )
    return tuple(found)
