"""Tokens per second of a model with and without kernels, in interleaved turns with a control."""

import random
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.models.install import is_settled
from kernelwright.runtime.models.toggle import without_kernels

Arm = Literal["untouched", "control", "tuned"]
_RESAMPLES = 2000
_MOST_WARM = 24
"""Turns until it is known which kernels pay in the model."""


class Interval(Record):
    """A median with the bounds between which it lies in 95 of 100 resamples."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Interval":
        """Take the median and bootstrap its bounds."""
        chance = random.Random(0)
        found = sorted(
            statistics.median(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES)
        )
        return cls(
            median=statistics.median(values),
            low=found[int(0.025 * _RESAMPLES)],
            high=found[int(0.975 * _RESAMPLES)],
        )


class ArmSpeed(Record):
    """One arm's milliseconds and memory."""

    prefill_ms: Interval
    """For the whole prompt."""
    decode_ms: Interval
    """For one token."""
    build_ms: Interval
    """Of these, what Python takes to build a token's graph, before anything is launched."""
    launch_ms: Interval
    """What MLX takes to launch it, the GPU's own time apart."""
    peak_bytes: int


class Speed(Record):
    """What kernels bring: ratios of neighbouring turns, so that drift meets both arms."""

    prompt: int
    tokens: int
    rounds: int
    arms: dict[Arm, ArmSpeed]
    decode_speedup: Interval
    prefill_speedup: Interval
    decode_control: Interval
    """Untouched against itself: what the measurement makes of nothing."""
    prefill_control: Interval
    build_speedup: Interval
    """Host time of a decode step: below one where kernels cost Python more than MLX's code."""

    def tokens_per_s(self, arm: Arm) -> float:
        """Return the decode speed of an arm."""
        return 1e3 / self.arms[arm].decode_ms.median


def measure_speed(
    model: Module, *, prompt: int = 512, tokens: int = 64, rounds: int = 7, seed: int = 0
) -> Speed:
    """Time an optimized model against itself without kernels.

    Each round runs the arms in an order and in its reverse (AB/BA); a control arm installs
    nothing either.
    """
    ids = mx.random.randint(0, 1000, (1, prompt), key=mx.random.key(seed)).astype(mx.uint32)
    for arm in ("untouched", "tuned", "tuned"):
        _turn(model, arm, ids, tokens)
    for _ in range(_MOST_WARM):
        if is_settled(model):
            break
        _turn(model, "tuned", ids, tokens)
    order: list[Arm] = ["untouched", "tuned", "control"]
    taken: dict[Arm, list[_Turn]] = {arm: [] for arm in order}
    peak: dict[Arm, int] = dict.fromkeys(order, 0)
    for number in range(2 * rounds):
        for arm in order if number % 2 == 0 else order[::-1]:
            mx.clear_cache()
            mx.reset_peak_memory()
            taken[arm].append(_turn(model, arm, ids, tokens))
            peak[arm] = max(peak[arm], mx.get_peak_memory())
    arms = {
        arm: ArmSpeed(
            prefill_ms=Interval.of([turn.prefill_ms for turn in found]),
            decode_ms=Interval.of([turn.decode_ms for turn in found]),
            build_ms=Interval.of([turn.build_ms for turn in found]),
            launch_ms=Interval.of([turn.launch_ms for turn in found]),
            peak_bytes=peak[arm],
        )
        for arm, found in taken.items()
    }

    def ratios(one: Arm, other: Arm, time_ms: Callable[[_Turn], float]) -> Interval:
        pairs = zip(taken[one], taken[other], strict=True)
        return Interval.of([time_ms(a) / time_ms(b) for a, b in pairs])

    return Speed(
        prompt=prompt,
        tokens=tokens,
        rounds=rounds,
        arms=arms,
        prefill_speedup=ratios("untouched", "tuned", _prefill_ms),
        decode_speedup=ratios("untouched", "tuned", _decode_ms),
        prefill_control=ratios("untouched", "control", _prefill_ms),
        decode_control=ratios("untouched", "control", _decode_ms),
        build_speedup=ratios("untouched", "tuned", lambda turn: turn.build_ms),
    )


@dataclass(frozen=True)
class _Turn:
    """Milliseconds of one prompt, and of a token behind it."""

    prefill_ms: float
    decode_ms: float
    build_ms: float
    launch_ms: float


def _prefill_ms(turn: _Turn) -> float:
    return turn.prefill_ms


def _decode_ms(turn: _Turn) -> float:
    return turn.decode_ms


def _turn(model: Module, arm: Arm, ids: mx.array, tokens: int) -> _Turn:
    """Run a prompt and tokens in one arm."""
    with nullcontext() if arm == "tuned" else without_kernels(model):
        return _generate(model, ids, tokens)


def _generate(model: Callable[..., mx.array], ids: mx.array, tokens: int) -> _Turn:
    """Run a prompt and greedy tokens as mlx-lm does: the next step is queued before this ends."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    built_s, launched_s = 0.0, 0.0
    mx.synchronize()
    begun = time.perf_counter()
    model(ids, cache=cache)
    mx.eval([c.state for c in cache])
    prefill_s = time.perf_counter() - begun

    def step(token: mx.array) -> mx.array:
        nonlocal built_s, launched_s
        begun = time.perf_counter()
        made = mx.argmax(model(token, cache=cache)[:, -1], axis=-1)[:, None]
        built = time.perf_counter()
        mx.async_eval(made)  # type: ignore[no-untyped-call]
        built_s += built - begun
        launched_s += time.perf_counter() - built
        return made

    token = step(ids[:, -1:])
    mx.eval(token)
    built_s, launched_s = 0.0, 0.0
    begun = time.perf_counter()
    for _ in range(tokens):
        following = step(token)
        mx.eval(token)
        token = following
    mx.eval(token)
    decode_s = time.perf_counter() - begun
    each_ms = 1e3 / tokens
    return _Turn(prefill_s * 1e3, decode_s * each_ms, built_s * each_ms, launched_s * each_ms)
