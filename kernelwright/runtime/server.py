"""Finds the store's kernels for a graph and prepares them on this machine's device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.stitch import RunRegion
from kernelwright.metal.device.array import to_mlx, to_numpy
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, Device, DeviceName, RunOptions
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.device.registry import open_device
from kernelwright.runtime.explanation import ServedRegion
from kernelwright.store import KernelStore, ServedProgram

# Norms and attention have kernels of MLX's own, which a graph traced on the CPU has lost.
_MLX_DOES_BETTER = frozenset({"rms_norm", "layer_norm", "rope", "attention"})


@dataclass(frozen=True)
class Service:
    """What the store offers for one graph."""

    graph: Graph
    programs: Mapping[Region, RunRegion]
    regions: tuple[ServedRegion, ...]
    reason: str
    """What is covered, or why nothing is."""
    is_lazy: bool = True
    """False on a device that has to see its inputs' values at once: the simulator."""


class KernelServer:
    """One store and one device, both opened when first needed."""

    def __init__(
        self,
        store: str | None = None,
        device: DeviceName | None = None,
        threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    ) -> None:
        """Serve from a store; a limit that is not Metal's means the kernels found under it."""
        self.url = store
        self._wanted_device = device
        self._threadgroup_bytes = threadgroup_bytes

    @cached_property
    def device(self) -> Device | None:
        """The device that kernels run on; None where there is none that is fast."""
        name = self._wanted_device or _own_device()
        try:
            return open_device(name, self._threadgroup_bytes) if name else None
        except KernelwrightError:
            return None

    @cached_property
    def store(self) -> KernelStore | None:
        """The store; None when there is none yet, or none that can be read."""
        try:
            return KernelStore(self.url, must_exist=True)
        except KernelwrightError:
            return None

    def serve(self, graph: Graph) -> Service:
        """Find and prepare champions for a canonical graph; never fails."""
        if self.device is None:
            return _nothing(graph, "this machine has no GPU that runs such Metal kernels")
        if self.store is None:
            return _nothing(graph, "there is no kernel store here yet; run kernelwright search")
        regions = ir.partition(graph)
        tasks = {region: region.extract() for region in regions}
        found = self.store.served(
            [task.fingerprint for task in tasks.values()],
            device=self.device.info.name,
            chip=self.device.info.chip,
        )
        programs: dict[Region, RunRegion] = {}
        rows: list[ServedRegion] = []
        for region, task in tasks.items():
            champion = found.get(task.fingerprint)
            run = self._prepare(champion, task) if champion else None
            if champion is not None and run is not None:
                programs[region] = run
                rows.append(_row(graph, region, task, champion))
        if not programs:
            return _nothing(graph, "no fresh champion fits these shapes and dtypes")
        if left := _lost_idioms(graph, programs):
            return _nothing(graph, f"no champion for {left}, which MLX runs in one kernel")
        covered = f"{len(programs)} of {len(regions)} regions run kernels"
        return Service(graph, programs, tuple(rows), covered, self.device.info.measures_time)

    def _prepare(self, served: ServedProgram, task: Graph) -> RunRegion | None:
        assert self.device is not None
        try:
            executable = self.device.compile(served.program.bind(task.input_types))
        except KernelwrightError:
            return None
        if isinstance(executable, MlxExecutable):
            return executable.graph

        def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            result = executable.run([to_numpy(a) for a in arrays], RunOptions())
            return [to_mlx(a) for a in result.outputs]

        return run


def _own_device() -> DeviceName | None:
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def _nothing(graph: Graph, reason: str) -> Service:
    return Service(graph, {}, (), reason)


def _lost_idioms(graph: Graph, programs: Mapping[Region, RunRegion]) -> str:
    """Name what would run in pieces although MLX has one kernel for it."""
    covered = {i for region in programs for i in region.indices}
    lost = {
        idiom.name
        for idiom in ir.idioms(graph)
        if idiom.name in _MLX_DOES_BETTER and not covered.issuperset(idiom.indices)
    }
    return ", ".join(sorted(lost))


def _row(graph: Graph, region: Region, task: Graph, served: ServedProgram) -> ServedRegion:
    rank = served.champion.rank
    value = {
        "measured": f"measured {rank.value:.3g} us",
        "predicted": f"predicted ~{rank.value:.3g} us",
        "traffic": f"{rank.value / 1e6:.3g} MB moved",
    }[rank.kind]
    saved = ir.compiled_traffic(graph, region.indices).nbytes
    saved -= ir.planned_traffic(graph, [region], region.indices).nbytes
    return ServedRegion(
        operation=ir.operation(task),
        candidate=served.champion.candidate_id,
        rank=value,
        bytes_saved=max(saved, 0),
    )
