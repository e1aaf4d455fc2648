"""A server whose kernels replay MLX, so that a model with kernels gives what MLX gives."""

from collections.abc import Sequence

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.fast import put_back
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.tree import all_modules
from kernelwright.runtime.server import KernelServer, Service


class Replaying(KernelServer):
    """Has a kernel for every region that a test wants, and counts how often they run."""

    has_champions = True

    def __init__(self, *, only: str = "") -> None:
        super().__init__()
        self.runs = 0
        self._only = only

    def generation(self) -> int:
        return 1

    def serve(self, graph: Graph) -> Service:
        programs: dict[Region, RunRegion] = {}
        for region in regions_of(graph):
            task = region.extract()
            if self._only in ir.operation(task):
                programs[region] = self._program(task)
        taken = frozenset(i for region in programs for i in region.indices)
        kept, left = put_back(graph, taken)
        if left or not programs:
            return Service(graph, {}, (), left or "nothing", is_lazy=False)
        return Service(graph, programs, (), "replays", is_lazy=False, kept=kept)

    def _program(self, task: Graph) -> RunRegion:
        def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            self.runs += 1
            return ir.interpret(task, *arrays)

        return run


def decode(model: Module, count: int = 16) -> tuple[list[int], mx.array]:
    """Decode greedily through the model's own caches; return the tokens and their logits."""
    cache = make_prompt_cache(model)
    tokens = mx.array([[5, 17, 42, 3, 9, 1]])
    found: list[int] = []
    logits: list[mx.array] = []
    for _ in range(count):
        last = model(tokens, cache=cache)[:, -1]
        tokens = mx.argmax(last, axis=-1)[:, None]
        mx.eval(tokens, last)
        found.append(int(str(tokens.item())))
        logits.append(last)
    return found, mx.stack(logits)


def served_classes(model: Module) -> set[str]:
    """Name the classes of the modules that run kernels."""
    sites = ((type(module).__name__, site_of(module)) for _, module in all_modules(model))
    return {name for name, site in sites if site is not None and site.routes}
