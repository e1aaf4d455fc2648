"""From a launch's counters to a time on a chip: simdgroups that wait, and queue for resources."""

from typing import Literal

from kernelwright.metal.device.base import Counters
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf.profile import ChipProfile
from kernelwright.metal.perf.queue import throughput
from kernelwright.metal.perf.residency import SIMD_WIDTH, Residency, residency_of
from kernelwright.metal.perf.traffic import cache_bytes, memory_bytes

Bound = Literal[
    "memory",
    "cache",
    "issue",
    "compute",
    "special",
    "integer",
    "threadgroup",
    "latency",
    "dispatch",
    "launch",
]
_MATRIX_MULTIPLY_ADDS = 8 * 8 * 8
_READS_IN_FLIGHT = 4
"""Reads of a simdgroup that are under way together: compilers unroll loops so often."""
_READ_BYTES = 16
"""The most that a lane reads at once, where reads were not counted."""


class Prediction(Record):
    """A predicted time; `label` goes wherever the time is shown."""

    kernel: str
    chip: str
    time_us: float
    bound: Bound
    """What limits the time; `launch` when the work is shorter than starting it."""
    bounds_us: dict[Bound, float]
    """How long each resource alone would take."""
    memory_bytes: int
    """Expected to reach memory, after the caches."""
    bandwidth_share: float
    """Of the chip's bandwidth, over the predicted time."""
    occupancy: float
    """Threads in flight, as a share of what keeps the arithmetic units busy."""
    label: Literal["prediction"] = "prediction"

    def __str__(self) -> str:
        """Render in one line."""
        return (
            f"{self.kernel} on {self.chip}: {self.time_us:.1f} us (prediction, "
            f"bound by {self.bound}, {self.bandwidth_share:.0%} of the bandwidth)"
        )


def predict(counters: Counters, profile: ChipProfile) -> Prediction:
    """Predict what a counted launch takes on a chip.

    Each resource alone would take a time. The simdgroups that a core holds queue for them, while
    others wait for memory or at barriers: how far all that overlaps follows from their number.
    """
    place = residency_of(counters, profile)
    moved = memory_bytes(counters, profile, place.in_flight)
    memory_us = moved / (profile.bandwidth_gb_s * 1e3 * profile.bandwidth_efficiency)
    core_us = _core_us(counters, profile, place)
    shared: dict[Bound, float] = {
        "memory": memory_us,
        "cache": cache_bytes(counters) / (_per_us(profile, place) * profile.core.cache_bytes),
        "dispatch": counters.threadgroups / profile.threadgroups_per_us,
    }
    wait_us = _wait_us(counters, profile, place)
    passes = place.turns * place.simdgroups
    """Simdgroups that a core runs."""
    services = [us / passes for us in (*shared.values(), max(core_us.values()))]
    bounds: dict[Bound, float] = {
        **shared,
        **core_us,
        "latency": wait_us * passes / place.customers,
        "launch": profile.launch_us,
    }
    time_us = passes / throughput(wait_us, services, place.customers) + profile.launch_us
    return Prediction(
        kernel=counters.kernel,
        chip=profile.name,
        time_us=time_us,
        bound=max(bounds, key=lambda bound: bounds[bound]),
        bounds_us=bounds,
        memory_bytes=moved,
        bandwidth_share=moved / time_us / (profile.bandwidth_gb_s * 1e3),
        occupancy=place.customers * SIMD_WIDTH / profile.core.saturating_threads,
    )


def _per_us(profile: ChipProfile, place: Residency) -> float:
    """Return the cycles of all cores with work in a microsecond."""
    return place.cores * profile.clock_ghz * 1e3


def _core_us(counters: Counters, profile: ChipProfile, place: Residency) -> dict[Bound, float]:
    """Return what each part of the cores would take; they work side by side."""
    rates, per_us = profile.core, _per_us(profile, place)
    lanes = max(counters.active_lanes, 1 / SIMD_WIDTH)
    matrix = counters.matrix_operations * _MATRIX_MULTIPLY_ADDS / rates.matrix_multiply_adds
    floats = counters.float_operations / rates.float_operations / lanes
    moved = counters.threadgroup_bytes_read + counters.threadgroup_bytes_written
    conflict_cycles = counters.bank_conflicts * SIMD_WIDTH * 4 / rates.threadgroup_bytes
    return {
        "issue": estimate_instructions(counters, profile) / rates.instructions / per_us,
        "compute": (floats + matrix) / per_us,
        "special": counters.special_operations / rates.special_operations / lanes / per_us,
        "integer": counters.integer_operations / rates.integer_operations / lanes / per_us,
        "threadgroup": (moved / rates.threadgroup_bytes + conflict_cycles) / per_us,
    }


def estimate_instructions(counters: Counters, profile: ChipProfile) -> float:
    """Estimate how many instructions all simdgroups issue together; see `InstructionCosts`."""
    costs = profile.core.costs
    moved = sum(b.bytes_read + b.bytes_written for b in counters.buffers)
    lanes = max(counters.active_lanes, 1 / SIMD_WIDTH)
    computed = costs.float_operation * counters.float_operations
    computed += costs.special_operation * counters.special_operations
    return (
        (computed / lanes + costs.byte * moved) / SIMD_WIDTH
        + costs.simd_operation * counters.simd_operations
        + costs.read * sum(b.reads for b in counters.buffers)
        + costs.thread * counters.threads / SIMD_WIDTH
    )


def _wait_us(counters: Counters, profile: ChipProfile, place: Residency) -> float:
    """Return how long a simdgroup of a kernel waits in its life, whatever others do."""
    rates = profile.core
    simdgroups = max(counters.threads / SIMD_WIDTH, 1)
    bytes_read = sum(b.bytes_read for b in counters.buffers)
    reads = sum(b.reads for b in counters.buffers) or bytes_read / (_READ_BYTES * SIMD_WIDTH)
    rounds = max(reads / simdgroups / _READS_IN_FLIGHT, 1.0)
    barriers = counters.barriers / max(counters.threadgroups, 1)
    cycles = barriers * (rates.barrier_cycles + rates.arrival_cycles * place.simdgroups)
    cycles += rates.instruction_cycles * estimate_instructions(counters, profile) / simdgroups
    latency_us = profile.threadgroup_start_us + rounds * profile.memory_latency_us
    return latency_us + cycles / (profile.clock_ghz * 1e3)
