"""Which parts of a graph to make kernels of, and whether each is worth it beside what MLX has.

`kernelwright.plan(…)` calls the Python face's function of that name.
"""

from typing import TYPE_CHECKING

from kernelwright.callable_room import make_callable
from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.plan.baseline import Baselines, baselines, best_baseline
    from kernelwright.plan.cost import Cost, Profile, best_traffic, cost, mlx_kernels
    from kernelwright.plan.legality import Verdict, legality
    from kernelwright.plan.own_copies import with_own_copies
    from kernelwright.plan.partition import partition
    from kernelwright.plan.traffic import (
        Traffic,
        compiled_traffic,
        eager_traffic,
        fast_traffic,
        planned_traffic,
    )
else:
    offer_lazily(__name__)
    make_callable(__name__)


__all__ = [
    "Baselines",
    "Cost",
    "Profile",
    "Traffic",
    "Verdict",
    "baselines",
    "best_baseline",
    "best_traffic",
    "compiled_traffic",
    "cost",
    "eager_traffic",
    "fast_traffic",
    "legality",
    "mlx_kernels",
    "partition",
    "planned_traffic",
    "with_own_copies",
]
