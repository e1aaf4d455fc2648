"""Times a call through `kernelwright.optimize` against the bare call, side by side.

Run `OPENBLAS_NUM_THREADS=1 python -m benchmarks.runtime.dispatch`: BLAS threads that spin on a busy
machine drown everything else. The served call runs programs that replay MLX's own
graph of each region, so that the two arms compute the same and only dispatch differs.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.stitch import RunRegion
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer, Service

Function = Callable[..., mx.array]


@dataclass(frozen=True)
class Comparison:
    """Medians of interleaved calls, and the median of the pairs' ratios."""

    name: str
    bare_us: float
    optimized_us: float
    ratio: float


class _Absent(KernelServer):
    """Has no kernel: every call runs the original."""

    def serve(self, graph: Graph) -> Service:
        return Service(graph, {}, (), "nothing is served")


class _Replaying(KernelServer):
    """Serves every region with MLX's own operations, as a device of MLX's would."""

    def serve(self, graph: Graph) -> Service:
        programs = {region: _replay(region) for region in ir.partition(graph)}
        return Service(graph, programs, (), "every region replays MLX")


def _replay(region: Region) -> RunRegion:
    task = region.extract()

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        return ir.interpret(task, *arrays)

    return run


def block(x: mx.array, scale: mx.array, weight: mx.array) -> mx.array:
    """Normalise rows and project them."""
    return mx.fast.rms_norm(x, scale, 1e-5) @ weight


def gate(x: mx.array, y: mx.array) -> mx.array:
    """Gate one array by another: hardly any work, so that dispatch shows."""
    return x * mx.sigmoid(y) + 1


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    mx.set_default_device(mx.cpu)
    side = 1024
    large = (mx.random.normal((side, side)), mx.ones(side), mx.random.normal((side, side)))
    small = (mx.random.normal((8, 64)), mx.random.normal((8, 64)))
    rows = [
        compare("rms_norm + matmul 1024, original", block, _Absent(), large, pairs),
        compare("rms_norm + matmul 1024, served", block, _Replaying(), large, pairs),
        compare("gate 8x64, original", gate, _Absent(), small, pairs * 50),
        compare("gate 8x64, served", gate, _Replaying(), small, pairs * 50),
    ]
    print("| call | bare us | optimized us | ratio |\n|---|---:|---:|---:|")
    for row in rows:
        print(f"| {row.name} | {row.bare_us:.1f} | {row.optimized_us:.1f} | {row.ratio:.3f} |")


def compare(
    name: str, function: Function, server: KernelServer, arrays: Sequence[mx.array], pairs: int
) -> Comparison:
    """Time both ways in turn, ABBA, so that drift and other load meet both."""
    optimized = Optimized(function, server)
    # What is served runs compiled; so does what it is compared with.
    is_served = optimized.explain(*arrays).path == "kernels"
    bare = mx.compile(function) if is_served else function
    for warm in (bare, optimized) * 3:
        mx.eval(warm(*arrays))
    taken: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(pairs):
        for is_optimized in (False, True) if pair % 2 else (True, False):
            taken[is_optimized].append(_time_us(optimized if is_optimized else bare, arrays))
    ratios = [o / b for b, o in zip(taken[False], taken[True], strict=True)]
    return Comparison(
        name,
        statistics.median(taken[False]),
        statistics.median(taken[True]),
        statistics.median(ratios),
    )


def _time_us(function: Callable[..., object], arrays: Sequence[mx.array]) -> float:
    begun = time.perf_counter()
    mx.eval(function(*arrays))
    return (time.perf_counter() - begun) * 1e6


if __name__ == "__main__":
    main()
