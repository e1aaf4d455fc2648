"""Times a call through `kernelwright.optimize` against the bare call, side by side.

Run `OPENBLAS_NUM_THREADS=1 python -m benchmarks.runtime.dispatch`: BLAS threads that spin on a busy
machine drown everything else. The served call runs programs that replay MLX's own
graph of each region, so that the two arms compute the same and only dispatch differs. Dispatch
alone is the least of many short runs that build the call and compute nothing.
"""

import argparse
import statistics
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.plan import partition
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer, Service

Function = Callable[..., mx.array]


@dataclass(frozen=True)
class Comparison:
    """The least of interleaved calls, which other load does not move, and the pairs' median."""

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
        programs = {region: _replay(region) for region in partition(graph)}
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


class Normalize(Module):
    """The block with its arrays as parameters, which are looked up at each call."""

    def __init__(self, side: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scale = mx.ones(side)
        self.weight = mx.random.normal((side, side))

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise rows and project them."""
        return block(x, self.scale, self.weight)


def main() -> None:
    """Compare, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    pairs = parser.parse_args().pairs
    mx.set_default_device(mx.cpu)
    cases = list(_cases())
    print("| dispatch alone | bare us | optimized us | more us |\n|---|---:|---:|---:|")
    for name, function, server, arrays in cases:
        bare, optimized = dispatch_us(function, server, arrays)
        print(f"| {name} | {bare:.2f} | {optimized:.2f} | {optimized - bare:.2f} |")
    head = "call and evaluation | bare us | optimized us | ratio | median ratio"
    print(f"\n| {head} |\n|---|---:|---:|---:|---:|")
    for name, function, server, arrays in cases:
        row = compare(name, function, server, arrays, pairs)
        least = f"{row.bare_us:.1f} | {row.optimized_us:.1f}"
        ratio = row.optimized_us / row.bare_us
        print(f"| {row.name} | {least} | {ratio:.3f} | {row.ratio:.3f} |")


def _cases() -> Iterator[tuple[str, Function, KernelServer, Sequence[mx.array]]]:
    side = 128
    large = (mx.random.normal((side, side)), mx.ones(side), mx.random.normal((side, side)))
    small = (mx.random.normal((8, 64)), mx.random.normal((8, 64)))
    for words, server in (("original", _Absent()), ("served", _Replaying())):
        yield f"gate 8x64, {words}", gate, server, small
        yield f"rms_norm + matmul {side}, {words}", block, server, large
        yield f"the same as a module, {words}", Normalize(side), server, large[:1]


def dispatch_us(
    function: Function, server: KernelServer, arrays: Sequence[mx.array]
) -> tuple[float, float]:
    """Return the least that the bare and the optimized call take before anything is computed."""
    arms = _arms(function, server, arrays)
    least = [float("inf"), float("inf")]
    for _ in range(100):
        for i, call in enumerate(arms):
            taken = timeit.timeit(lambda call=call: call(*arrays), number=100) / 100  # type: ignore[misc]
            least[i] = min(least[i], taken * 1e6)
    return least[0], least[1]


def _arms(
    function: Function, server: KernelServer, arrays: Sequence[mx.array]
) -> tuple[Callable[..., object], Callable[..., object]]:
    optimized = Optimized(function, server)
    # What is served runs compiled; so does what it is compared with.
    is_served = optimized.explain(*arrays).path == "kernels"
    bare = mx.compile(function) if is_served else function
    for warm in (bare, optimized) * 3:
        mx.eval(warm(*arrays))
    return bare, optimized


def compare(
    name: str, function: Function, server: KernelServer, arrays: Sequence[mx.array], pairs: int
) -> Comparison:
    """Time both ways in turn, ABBA, so that drift and other load meet both."""
    bare, optimized = _arms(function, server, arrays)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(pairs):
        for is_optimized in (False, True) if pair % 2 else (True, False):
            taken[is_optimized].append(_time_us(optimized if is_optimized else bare, arrays))
    ratios = [o / b for b, o in zip(taken[False], taken[True], strict=True)]
    return Comparison(
        name,
        min(taken[False]),
        min(taken[True]),
        statistics.median(ratios),
    )


def _time_us(function: Callable[..., object], arrays: Sequence[mx.array]) -> float:
    begun = time.perf_counter()
    mx.eval(function(*arrays))
    return (time.perf_counter() - begun) * 1e6


if __name__ == "__main__":
    main()
