"""From a launch's counters to a time on a chip: what each resource takes, and what overlaps."""

from collections.abc import Collection, Mapping
from typing import Literal

from kernelwright.metal.device.base import Counters
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf.profile import ChipProfile, caveat_of
from kernelwright.metal.perf.residency import SIMD_WIDTH, Residency, residency_of
from kernelwright.metal.perf.traffic import SECTOR_BYTES, cache_bytes, memory_bytes

Bound = Literal[
    "memory",
    "cache",
    "issue",
    "compute",
    "special",
    "integer",
    "accesses",
    "threadgroup",
    "latency",
    "dispatch",
    "launch",
]
_MATRIX_MULTIPLY_ADDS = 8 * 8 * 8
_ROUNDS_IN_FLIGHT = 4
"""Rounds of reads of a plain loop that are under way together: compilers unroll loops so often."""
_READ_BYTES = 16
"""The most that a lane reads at once, where reads were not counted."""
_OVERLAP = 9.3
"""How sharply the longest of several times decides: fitted, see docs/prediction.md."""
_ABOUT_LEAST = 1.1
"""Times the least that a launch takes, up to which nothing but the launch is worth a change."""


class Prediction(Record):
    """A predicted time; `label` goes wherever the time is shown."""

    kernel: str
    chip: str
    time_us: float
    bound: Bound
    """What limits the time; `launch` where any launch takes about as long."""
    bounds_us: dict[Bound, float]
    """How long each resource alone would take, beside the launch's start."""
    imbalance_us: float = 0.0
    """How long the largest threadgroup keeps one core after the others are through."""
    memory_bytes: int
    """Expected to reach memory, after the caches."""
    bandwidth_share: float
    """Of the chip's bandwidth, over the predicted time."""
    occupancy: float
    """Threads in flight, as a share of what keeps the arithmetic units busy."""
    label: Literal["prediction"] = "prediction"
    carried_over_from: str = ""
    """The chip that the costs were fitted on, where it is another; said wherever the time is."""

    def __str__(self) -> str:
        """Render in one line."""
        caveat = caveat_of([self.chip])
        return (
            f"{self.kernel} on {self.chip}: {self.time_us:.1f} us (prediction, "
            f"bound by {self.bound}, {self.bandwidth_share:.0%} of the bandwidth"
            f"{'; ' if caveat else ''}{caveat})"
        )


def predict(counters: Counters, profile: ChipProfile) -> Prediction:
    """Predict what a counted launch takes on a chip.

    Each resource alone would take a time; with many simdgroups on a core the longest decides, the
    others hide behind it. What a simdgroup does one after the other stays visible where few others
    fill the gaps. Counts are sums over all threadgroups; where one has more work than the mean, the
    chip waits for it.
    """
    place = residency_of(counters, profile)
    moved = memory_bytes(counters, profile, place.in_flight)
    memory_us = moved / (profile.bandwidth_gb_s * 1e3 * profile.bandwidth_efficiency)
    cache_cycles = cache_bytes(counters, profile, place) / profile.core.cache_bytes
    cache_us = cache_cycles / _per_us(profile, place)
    dispatch_us = counters.threadgroups / profile.threadgroups_per_us
    core_us = _core_us(counters, profile, place)
    busiest_us = max(core_us.values())
    simdgroups = place.turns * place.simdgroups
    latency_us = _wait_us(counters, profile, place) * simdgroups / place.customers
    bounds: dict[Bound, float] = {
        "memory": memory_us,
        "cache": cache_us,
        "dispatch": dispatch_us,
        **core_us,
        "latency": latency_us,
    }
    overlapped_us = _overlapped((memory_us, cache_us, dispatch_us, busiest_us, latency_us))
    in_turn_us = (memory_us + cache_us + busiest_us) / place.independent
    busy_us = overlapped_us + in_turn_us
    imbalance_us = _straggling_us(counters, profile, place, busy_us)
    time_us = busy_us + imbalance_us + profile.launch_us
    return Prediction(
        kernel=counters.kernel,
        chip=profile.name,
        time_us=time_us,
        bound=_bound(bounds, time_us, profile),
        bounds_us=bounds,
        imbalance_us=imbalance_us,
        memory_bytes=moved,
        bandwidth_share=moved / time_us / (profile.bandwidth_gb_s * 1e3),
        occupancy=place.customers * SIMD_WIDTH / profile.core.saturating_threads,
        carried_over_from=profile.carried_over_from,
    )


def _bound(bounds_us: Mapping[Bound, float], time_us: float, profile: ChipProfile) -> Bound:
    """Return what a change would have to shorten; the start of a launch is the same for all."""
    if time_us <= _ABOUT_LEAST * profile.least_launch_us:
        return "launch"
    return max(bounds_us, key=lambda bound: bounds_us[bound])


def _straggling_us(
    counters: Counters, profile: ChipProfile, place: Residency, busy_us: float
) -> float:
    """Return how long the largest threadgroup keeps one core after the others are through.

    At its start it may be the last. Alone on a core it takes as many times what a mean one does as
    it has work: a simdgroup's life at least, or else the core's share of the time of all.
    """
    one_us = max(
        _wait_us(counters, profile, place),
        busy_us * place.cores / max(counters.threadgroups, 1),
    )
    return max(counters.group_imbalance - 1, 0.0) * min(one_us, busy_us)


def _overlapped(times_us: Collection[float]) -> float:
    """Return the longest of several times, and more where others are as long."""
    longest = max(times_us)
    shares = sum((us / longest) ** _OVERLAP for us in times_us) if longest else 1.0
    return float(longest * shares ** (1 / _OVERLAP))


def _per_us(profile: ChipProfile, place: Residency) -> float:
    """Return the cycles of all cores with work in a microsecond."""
    return place.cores * profile.clock_ghz * 1e3


def _core_us(counters: Counters, profile: ChipProfile, place: Residency) -> dict[Bound, float]:
    """Return what each part of the cores would take; they work side by side."""
    rates, per_us = profile.core, _per_us(profile, place)
    lanes = max(counters.active_lanes, 1 / SIMD_WIDTH)
    usual = counters.matrix_operations - counters.tensor_operations
    matrix = usual * _MATRIX_MULTIPLY_ADDS / rates.matrix_multiply_adds
    matrix += counters.tensor_operations * _MATRIX_MULTIPLY_ADDS / rates.tensor_multiply_adds
    floats = counters.float_operations / rates.float_operations / lanes
    moved = counters.threadgroup_bytes_read + counters.threadgroup_bytes_written
    sectors = sum(b.sectors_read + b.sectors_written for b in counters.buffers)
    conflict_cycles = counters.bank_conflicts * SIMD_WIDTH * 4 / rates.threadgroup_bytes
    return {
        "issue": estimate_instructions(counters, profile) / rates.instructions / per_us,
        "compute": (floats + matrix) / per_us,
        "special": counters.special_operations / rates.special_operations / lanes / per_us,
        "accesses": sectors * SECTOR_BYTES / rates.access_bytes / per_us,
        "integer": counters.integer_operations / rates.integer_operations / lanes / per_us,
        "threadgroup": (moved / rates.threadgroup_bytes + conflict_cycles) / per_us,
    }


def estimate_instructions(counters: Counters, profile: ChipProfile) -> float:
    """Estimate how many instructions all simdgroups issue together; see `InstructionCosts`."""
    costs = profile.core.costs
    moved = sum(b.bytes_read + b.bytes_written for b in counters.buffers)
    lanes = max(counters.active_lanes, 1 / SIMD_WIDTH)
    computed = costs.float_operation * counters.float_operations
    computed += costs.integer_operation * counters.integer_operations
    accurate = max(counters.special_operations - counters.quick_operations, 0)
    computed += costs.special_operation * accurate
    computed += costs.quick_operation * counters.quick_operations
    return (
        (computed / lanes + costs.byte * moved) / SIMD_WIDTH
        + costs.simd_operation * counters.simd_operations
        + costs.read * sum(b.reads for b in counters.buffers)
        + costs.write * sum(b.writes for b in counters.buffers)
        + costs.thread * counters.threads / SIMD_WIDTH
    )


def _wait_us(counters: Counters, profile: ChipProfile, place: Residency) -> float:
    """Return how long a simdgroup of a kernel waits in its life, whatever others do."""
    rates = profile.core
    # Of a threadgroup that fills none every simdgroup waits all the same, beside the others.
    simdgroups = max(counters.threadgroups, 1) * place.simdgroups
    rounds = max(_rounds(counters) / simdgroups, 1.0)
    barriers = counters.barriers / max(counters.threadgroups, 1)
    cycles = barriers * (rates.barrier_cycles + rates.arrival_cycles * place.simdgroups)
    cycles += rates.instruction_cycles * estimate_instructions(counters, profile) / simdgroups
    latency_us = profile.threadgroup_start_us + rounds * profile.memory_latency_us
    return latency_us + cycles / (profile.clock_ghz * 1e3)


def _rounds(counters: Counters) -> float:
    """Return how often simdgroups wait for reads, one after the other."""
    looped = sum(b.looped_rounds for b in counters.buffers)
    rounds = sum(b.read_rounds for b in counters.buffers)
    if rounds:
        return rounds - looped + looped / _ROUNDS_IN_FLIGHT
    bytes_read = sum(b.bytes_read for b in counters.buffers)
    return bytes_read / (_READ_BYTES * SIMD_WIDTH * _ROUNDS_IN_FLIGHT)
