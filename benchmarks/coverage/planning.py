"""Times what a plan costs, beside MLX's own trace of the same function.

python -m benchmarks.coverage.planning [--only llama,mamba]

Prints a line a step: MLX's trace, our capture as a multiple of it, and the seconds from captured
to planned: the canonical form, the cut, and the first kernel of every distinct region. All times
are of the processor.
"""

import argparse
import gc
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from benchmarks.coverage.configuration import Architecture, architectures
from benchmarks.coverage.step import Step, steps
from kernelwright import ir
from kernelwright.agents.offline.planner import OfflinePlanner
from kernelwright.errors import KernelwrightError
from kernelwright.metal.device.registry import open_device

_ROUNDS = 3


@dataclass(frozen=True)
class Timing:
    """Processor seconds that one step of a model took, the best of three rounds of each."""

    trace_s: float
    """MLX's own `export_function`; 0 where it refuses the function."""
    capture_s: float
    plan_s: float

    @property
    def slowdown(self) -> float:
        """Capturing as a multiple of MLX's own trace; 0 where there is none."""
        return self.capture_s / self.trace_s if self.trace_s else 0.0

    def line(self) -> str:
        """Say it in a line of a terminal."""
        trace = f"trace {self.trace_s * 1e3:5.0f} ms   capture {self.slowdown:4.2f}x"
        return f"{trace if self.trace_s else 'MLX exports no trace':32} plan {self.plan_s:5.2f} s"


def main() -> int:
    """Time every step of every architecture and print the slowest of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="families, separated by commas")
    options = parser.parse_args()
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    wanted = set(filter(None, options.only.split(",")))
    timings: dict[str, Timing] = {}
    for architecture in architectures():
        if not wanted or architecture.name in wanted:
            timings.update(_timed(architecture))
    if timings:
        slowest = max(timings, key=lambda name: timings[name].plan_s)
        worst = max(timings, key=lambda name: timings[name].slowdown)
        print(f"slowest plan: {slowest}, {timings[slowest].plan_s:.2f} s")
        print(f"slowest capture: {worst}, {timings[worst].slowdown:.2f} times MLX's trace")
    return 0


def _timed(architecture: Architecture) -> dict[str, Timing]:
    """Time the steps of a model and print a line each; nothing where it cannot be captured."""
    mx.random.seed(7)
    found: dict[str, Timing] = {}
    try:
        model = architecture.build()
        mx.eval(model.parameters())  # type: ignore[attr-defined]
        for name, step, arrays in steps(model):
            timing = time_step(step, arrays)
            found[f"{architecture.name} {name}"] = timing
            print(f"{architecture.name:24} {name:7} {timing.line()}", flush=True)
    except (KernelwrightError, ValueError) as e:
        print(f"{architecture.name:24} {e}", flush=True)
    return found


def time_step(step: Step, arrays: Sequence[mx.array]) -> Timing:
    """Time MLX's trace, the capture and the plan of one call of a model."""
    return Timing(
        trace_s=_fastest_s(lambda: mx.export_function([].append, step, *arrays)),
        capture_s=_fastest_s(lambda: ir.capture(step, *arrays)),
        plan_s=_planning_s(ir.capture(step, *arrays)),
    )


def _planning_s(graph: ir.Graph) -> float:
    device = open_device("simulator").info

    def plan() -> None:
        OfflinePlanner().plan(ir.gather_attention(ir.canonicalize(graph)), device)

    return _fastest_s(plan)


def _fastest_s(action: Callable[[], object]) -> float:
    """Time an action after a collection, the best of three; 0 where MLX refuses to export."""
    best = math.inf
    for _ in range(_ROUNDS):
        gc.collect()
        started = time.process_time()
        try:
            action()
        except ValueError:
            return 0.0
        best = min(best, time.process_time() - started)
    return best


if __name__ == "__main__":
    sys.exit(main())
