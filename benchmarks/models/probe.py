"""What a model would gain from the kernels that lowering writes, before any is judged.

Each task's schedules are compiled, compared with MLX once and timed; the fastest are put into the
model. Nothing is stored or installed for later: this says what a search can reach, in seconds.
"""

import time
from collections.abc import Mapping, Sequence

import mlx.core as mx

from benchmarks.models.screening import choose_schedule
from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.metal.device.executable import Device
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.chain import chained_us
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.fast import put_back
from kernelwright.runtime.models.choosing import Choice, several_inputs
from kernelwright.runtime.server import KernelServer, Service


class Probe(Record):
    """What one task's best schedule takes."""

    task: str
    inputs: tuple[str, ...]
    calls: int
    mlx_us: float
    floor_us: float
    best_us: float | None
    schedule: str
    tried: int
    problems: tuple[str, ...]
    took_s: float


class ProbedServer(KernelServer):
    """Serves the kernels that were probed, where they were faster than MLX."""

    has_champions = True

    def __init__(self, kernels: Mapping[str, RunRegion]) -> None:
        super().__init__()
        self.is_off = False
        self._kernels = kernels

    def generation(self) -> int:
        """Return the same always: nothing is looked up."""
        return 1

    def serve(self, graph: Graph) -> Service:
        """Serve what has a kernel."""
        programs: dict[Region, RunRegion] = {}
        for region in regions_of(graph):
            kernel = self._kernels.get(region.extract().fingerprint)
            if kernel is not None:
                programs[region] = kernel
        kept, left = put_back(graph, frozenset(i for r in programs for i in r.indices))
        if left or not programs:
            return Service(graph, {}, (), left or "nothing was probed")
        return Service(graph, programs, (), "probed", kept=kept)


def probe(
    choices: Sequence[Choice], device: Device, *, most_schedules: int, seconds: float
) -> tuple[list[Probe], ProbedServer]:
    """Try schedules of the tasks in order until the time is over."""
    rows: list[Probe] = []
    kernels: dict[str, RunRegion] = {}
    ending_s = time.perf_counter() + seconds
    for choice in choices:
        if time.perf_counter() > ending_s:
            break
        begun_s = time.perf_counter()
        found, tried = choose_schedule(choice.graph, 0, device, most_schedules)
        best = next((row for row in tried if row.is_chosen), None)
        best_us = None
        if found is not None:
            run = mx.compile(lambda *arrays, kernel=found: list(kernel.graph(arrays)))
            best_us = round(chained_us(choice.graph, run, several_inputs(choice.graph)), 2)
        rows.append(
            Probe(
                task=ir.operation(choice.graph),
                inputs=tuple(map(str, choice.graph.input_types)),
                calls=choice.calls,
                mlx_us=round(choice.taken_us, 2),
                floor_us=round(choice.floor_us, 2),
                best_us=best_us,
                schedule=best.schedule if best else "",
                tried=len(tried),
                problems=tuple(row.problem[:200] for row in tried if row.problem)[:4],
                took_s=round(time.perf_counter() - begun_s, 1),
            )
        )
        if found is not None and best_us is not None and best_us < choice.taken_us:
            kernels[choice.graph.fingerprint] = found.graph
    return rows, ProbedServer(kernels)
