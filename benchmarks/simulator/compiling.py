"""What a text's builds take to compile: `python -m benchmarks.simulator compile`.

Processor time, of this process and of all compilers that it starts: what a busy machine changes
least. To set two states of the source side by side, take turns between their checkouts.
"""

import resource
import time
from dataclasses import dataclass
from typing import get_args

from benchmarks.simulator.kernels import TEXTS
from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator.toolchain import Variant
from kernelwright.metal.device.simulator.unit import Prelude

_TURNS = 8
_KERNELS = ("multiply_add", "softmax")


@dataclass(frozen=True)
class Cost:
    """The least of several turns."""

    elapsed_s: float
    own_s: float
    """Processor time of this process."""
    compilers_s: float


def main() -> None:
    """Measure each build of two kernels behind MLX's headers, and print one table."""
    print("| kernel | build | ms | CPU ms | of which Python |\n|---|---|---|---|---|")
    for kernel in _KERNELS:
        for variant in get_args(Variant):
            cost = compile_cost(kernel, "mlx", variant)
            print(
                f"| {kernel} | {variant} | {cost.elapsed_s * 1e3:.0f} "
                f"| {(cost.own_s + cost.compilers_s) * 1e3:.0f} | {cost.own_s * 1e3:.0f} |",
                flush=True,
            )


def compile_cost(kernel: str, prelude: Prelude, variant: Variant) -> Cost:
    """Return what a text that no cache knows takes, from the text to a library."""
    costs = [_turn(kernel, prelude, variant) for _ in range(_TURNS + 1)]
    # The first builds what all texts share.
    return Cost(
        elapsed_s=min(c.elapsed_s for c in costs[1:]),
        own_s=min(c.own_s for c in costs[1:]),
        compilers_s=min(c.compilers_s for c in costs[1:]),
    )


def _turn(kernel: str, prelude: Prelude, variant: Variant) -> Cost:
    text = f"{TEXTS[kernel]}\nconstant int turn_{time.time_ns()} = 0;\n"
    start_s, own_s, compilers_s = time.perf_counter(), time.process_time(), _compilers_s()
    simulator.compile(text, prelude=prelude, variant=variant)
    return Cost(
        elapsed_s=time.perf_counter() - start_s,
        own_s=time.process_time() - own_s,
        compilers_s=_compilers_s() - compilers_s,
    )


def _compilers_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
