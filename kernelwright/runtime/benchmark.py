"""A function timed on this machine: eager, under `mx.compile`, with `mx.fast`, and with kernels.

All of them take turns, so that whatever slows the machine down meets all of them alike.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, cast

import mlx.core as mx
import numpy as np

from kernelwright import ir
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.gain import Gain
from kernelwright.evaluator.speed.baseline import baselines_of
from kernelwright.evaluator.speed.statistics import bootstrap, log_ratios
from kernelwright.evaluator.speed.timing_cases import timing_cases
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.arguments import rebuild
from kernelwright.ir.trace.array import is_array
from kernelwright.ir.trace.example_call import input_leaves, result_arrays
from kernelwright.metal.device.array import to_mlx
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer

Name = Literal["eager MLX", "mx.compile", "mx.fast", "ours"]
Arrays = Sequence[mx.array]
Call = Callable[[Arrays], Arrays]
"""Takes a function's arrays and returns its results, not evaluated yet."""
_FEWEST_ROUNDS = 5
_SAMPLE_S = 0.02
_MOST_REPEATS = 512
_MOST_SETS = 4
_ROTATION_BYTES = 128 << 20
_CONFIDENCE = 0.95
_RESAMPLES = 2000
_SECRET = "benchmark"
"""Seeds the drawn inputs: each run of the command times the same ones."""


class ArmTime(Record):
    """What one call takes: the median with an interval that holds it in 95 of 100 resamples."""

    name: Name
    median_us: float
    lower_us: float
    upper_us: float


class Benchmark(Record):
    """One function's times on one device; a prediction never stands among them."""

    function: str
    inputs: str
    chip: str
    """What was timed: a GPU, or this machine's CPU."""
    is_gpu: bool
    rounds: int
    arms: tuple[ArmTime, ...]
    left_out: dict[Name, str]
    """Why something was not timed."""
    fastest: Name
    """Of MLX's own ways."""
    gain: Gain | None
    """Of our kernels over the fastest of MLX's, measured; None where ours were not timed."""


@dataclass(frozen=True)
class BenchmarkCall:
    """A function and arguments like those that it is timed with."""

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people call the function."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def of(self, function: Callable[..., object]) -> Call:
        """Return a function that is called like this one, as one of arrays alone."""
        named = {name: self.kwargs[name] for name in sorted(self.kwargs)}

        def call(arrays: Arrays) -> Arrays:
            nest = rebuild((self.args, named), arrays, is_array)
            args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", nest)
            return [*result_arrays(function(*args, **kwargs), self.name), *arrays]

        return call


def benchmark(
    call: BenchmarkCall,
    *,
    store: str | None = None,
    device: DeviceName,
    rounds: int,
    seconds: float = 20.0,
) -> Benchmark:
    """Time a function in turns on a device; on the simulator's, MLX on this machine's CPU alone.

    Args:
        call: The function and its arguments, whose shapes and dtypes count; values are drawn.
        store: Where our kernels are.
        device: A GPU of this machine, or `simulator`.
        rounds: Turns of every arm, each in an order and in its reverse.
        seconds: About how long all turns may take; slow functions get fewer.

    Raises:
        InputError: the function does not run on these inputs.
        DeviceError: the machine has no such device.
    """
    server = KernelServer(store, device)
    is_gpu = server.measures_time
    if device != "simulator" and not is_gpu:
        raise InputError(
            f"expected a GPU that {device} runs on, found none; leave --device out to time MLX on "
            "this machine's CPU."
        )
    with nullcontext() if is_gpu else _on_cpu():
        graph = _captured(call)
        sets = _input_sets(call, graph)
        arms, left_out = _arms(call, graph, server if is_gpu else None, sets[0])
        samples = _Turns(arms, sets).taken(rounds, seconds)
    return _summary(call, graph, samples, left_out, _chip(server) if is_gpu else "")


def _captured(call: BenchmarkCall) -> Graph:
    return ir.canonicalize(ir.capture_call(call.function, *call.args, **call.kwargs).graph)


def _on_cpu() -> AbstractContextManager[object]:
    return mx.stream(mx.cpu)


def _chip(server: KernelServer) -> str:
    assert server.device is not None
    return server.device.info.chip


def _input_sets(call: BenchmarkCall, graph: Graph) -> list[Arrays]:
    """Draw inputs several times over, so that no cache holds what a program would not."""
    given = [_to_mlx(leaf.array) for leaf in input_leaves(call.args, call.kwargs)]
    nbytes = max(sum(array.nbytes for array in given), 1)
    plan = TimingPlan(rotation_bytes=min(_ROTATION_BYTES, _MOST_SETS * nbytes))
    try:
        drawn = timing_cases(graph, (), plan, _SECRET).inputs[:_MOST_SETS]
    except InputError:
        # Its indices leave their arrays whatever is drawn: those of the example do not.
        return [given]
    sets: list[Arrays] = [[to_mlx(array) for array in arrays] for arrays in drawn]
    mx.eval(sets)
    return sets


def _to_mlx(array: object) -> mx.array:
    return array if isinstance(array, mx.array) else to_mlx(np.asarray(array))


def _arms(
    call: BenchmarkCall, graph: Graph, server: KernelServer | None, arrays: Arrays
) -> tuple[dict[Name, Call], dict[Name, str]]:
    """Return what takes turns, and why something does not."""
    own = call.of(call.function)
    compiled = mx.compile(lambda *given: own(given))
    found: dict[Name, Call] = {"eager MLX": own, "mx.compile": lambda given: compiled(*given)}
    if (fast := baselines_of(graph).get("fast")) is not None:
        found["mx.fast"] = lambda given: fast(*given)
    left_out: dict[Name, str] = {}
    if server is None:
        left_out["ours"] = "this machine has no GPU that runs Metal kernels"
    elif reason := _served(call, server, arrays, found):
        left_out["ours"] = reason
    for name in list(found):
        try:
            mx.eval(list(found[name](arrays)))
        except Exception as e:
            if name == "eager MLX":
                if isinstance(e, KernelwrightError):
                    raise
                raise InputError(
                    f"{call.name} does not run on its inputs: {type(e).__name__}: {e}."
                ) from e
            del found[name]
            left_out[name] = f"it does not run so: {type(e).__name__}: {str(e)[:200]}"
    return found, left_out


def _served(
    call: BenchmarkCall, server: KernelServer, arrays: Arrays, found: dict[Name, Call]
) -> str:
    """Add the function with our kernels, or return why it has none."""
    optimized = Optimized(call.function, server)
    nest = rebuild((call.args, dict(call.kwargs)), arrays, is_array)
    args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", nest)
    explanation = optimized.explain(*args, **kwargs)
    if explanation.path == "original":
        return explanation.reason
    found["ours"] = call.of(optimized)
    return ""


@dataclass
class _Turns:
    """Samples of several arms, one round after the other."""

    arms: Mapping[Name, Call]
    sets: Sequence[Arrays]

    def taken(self, rounds: int, seconds: float) -> dict[Name, list[float]]:
        """Return each arm's microseconds a call, one figure for every round."""
        repeats = {name: self._repeats(call) for name, call in self.arms.items()}
        each_s = sum(self._sample(self.arms[n], k) * k for n, k in repeats.items()) / 1e6
        affordable = int(seconds / max(2 * each_s, 1e-9))
        taken: dict[Name, list[float]] = {name: [] for name in self.arms}
        for _ in range(max(min(rounds, affordable), _FEWEST_ROUNDS)):
            order = list(self.arms)
            found: dict[Name, list[float]] = {name: [] for name in order}
            for name in (*order, *order[::-1]):
                found[name].append(self._sample(self.arms[name], repeats[name]))
            # The mean over A B B A cancels a drift that is linear in time.
            for name, pair in found.items():
                taken[name].append(sum(pair) / len(pair))
        return taken

    def _repeats(self, call: Call) -> int:
        """Return how many calls make a sample long enough, after warming the arm up."""
        self._sample(call, 1)
        count = 1
        while count < _MOST_REPEATS and self._sample(call, count) * count < _SAMPLE_S * 1e6:
            count *= 2
        return count

    def _sample(self, call: Call, count: int) -> float:
        """Return microseconds a call, Python's share included: what a program pays."""
        mx.synchronize()
        begun = time.perf_counter()
        for i in range(count):
            results = call(self.sets[i % len(self.sets)])
            mx.async_eval(results)  # type: ignore[no-untyped-call]
        mx.eval(results)
        mx.synchronize()
        return (time.perf_counter() - begun) * 1e6 / count


def _summary(
    call: BenchmarkCall,
    graph: Graph,
    samples: Mapping[Name, list[float]],
    left_out: dict[Name, str],
    chip: str,
) -> Benchmark:
    arms = {name: _arm_time(name, found) for name, found in samples.items()}
    fastest = min((a for a in arms.values() if a.name != "ours"), key=lambda a: a.median_us).name
    named = chip or f"this machine's CPU ({platform.machine()}, {os.cpu_count()} cores)"
    gain = None
    if "ours" in samples:
        paired = _interval(log_ratios(samples["ours"], samples[fastest]).tolist())
        gain = Gain(
            kind="measured",
            baseline=fastest,
            chip=named,
            ratio=paired[0],
            lower=paired[1],
            upper=paired[2],
            confidence=_CONFIDENCE,
            kernel_us=arms["ours"].median_us,
        )
    return Benchmark(
        function=call.name,
        inputs=", ".join(map(str, graph.input_types)),
        chip=named,
        is_gpu=bool(chip),
        rounds=len(next(iter(samples.values()))),
        arms=tuple(arms.values()),
        left_out=left_out,
        fastest=fastest,
        gain=gain,
    )


def _arm_time(name: Name, microseconds: Sequence[float]) -> ArmTime:
    median, lower, upper = _interval([float(np.log(us)) for us in microseconds])
    return ArmTime(name=name, median_us=median, lower_us=lower, upper_us=upper)


def _interval(logarithms: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of what the logarithms stand for, and its bounds."""
    random = np.random.default_rng(0)
    found = bootstrap(np.asarray(logarithms), _CONFIDENCE, _RESAMPLES, random)
    return found.ratio, found.lower, found.upper
