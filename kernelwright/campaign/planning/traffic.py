"""What fusing saves: bytes to and from memory, counted from graphs and from kernels."""

from collections.abc import Sequence

from kernelwright.ir import Graph, Region
from kernelwright.metal.diagnostic import Record
from kernelwright.plan import baselines, best_traffic, planned_traffic


class Traffic(Record):
    """Bytes to and from device memory for one call, by who computes it."""

    eager: int
    """Every op on its own."""
    compiled: int
    """What `mx.compile` leaves: elementwise chains fused, reductions apart."""
    fast: int
    """`mx.compile` around `mx.fast`, where there is a function of it for a part."""
    planned: int
    """Each region in one kernel that reads its inputs and writes its outputs once, and MLX at
    its best for the rest."""
    kernel: int | None = None
    """Distinct bytes that the champion's launches touched, as counted on the device."""
    eager_launches: int = 0
    compiled_launches: int = 0
    planned_launches: int = 0

    @property
    def best_of_mlx(self) -> int:
        """The least that MLX can be made to move without a kernel of one's own."""
        return min(self.eager, self.compiled, self.fast)

    @property
    def moved(self) -> int:
        """What the champion moves: counted where it was counted, else what its plan must."""
        return self.planned if self.kernel is None else self.kernel


def traffic_of(graph: Graph, regions: Sequence[Region] | None = None) -> Traffic:
    """Count a graph's traffic; without `regions` the whole graph is one kernel."""
    if regions is None:
        regions = [Region(graph, tuple(range(len(graph.nodes))))]
    covered = {i for region in regions for i in region.indices}
    rest = [i for i in range(len(graph.nodes)) if i not in covered]
    planned = planned_traffic(graph, regions, covered) + best_traffic(graph, rest)
    by_mlx = baselines(graph)
    return Traffic(
        eager=by_mlx.eager.nbytes,
        compiled=by_mlx.compiled.nbytes,
        fast=by_mlx.fast.nbytes,
        planned=planned.nbytes,
        eager_launches=by_mlx.eager.launches,
        compiled_launches=by_mlx.compiled.launches,
        planned_launches=planned.launches,
    )
