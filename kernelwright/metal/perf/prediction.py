"""From a launch's counters to a time on a chip: a roofline with parallelism and latency."""

from typing import Literal

from kernelwright.metal.device.base import BufferTraffic, Counters
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf.profile import ChipProfile

Bound = Literal[
    "memory",
    "cache",
    "compute",
    "special",
    "integer",
    "threadgroup",
    "latency",
    "dispatch",
    "launch",
]
_SECTOR_BYTES = 32
_MATRIX_MULTIPLY_ADDS = 8 * 8 * 8
_SIMD_WIDTH = 32
_BYTES_IN_FLIGHT = 24
"""Bytes that a thread reads before it waits, at most."""
_OVERLAP = 1.8
"""Exponent of the norm that adds up what resources take: 1 where they wait for each other, more
where they overlap. This and the one above are fitted to 157 kernels timed on an H200, see
docs/prediction.md."""


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

    Each resource alone would take a time; most of them overlap, so that the prediction lies
    between the longest and their sum, plus the launch. Units of a chip that have too little to do
    in parallel are left out of each rate.
    """
    parallel = _Parallelism(counters, profile)
    memory_bytes = _memory_bytes(counters, profile)
    per_us = parallel.cores * profile.clock_ghz * 1e3
    busy_per_us = per_us * min(1.0, parallel.occupancy)
    rates = profile.core
    lanes = max(counters.active_lanes, 1 / _SIMD_WIDTH)
    matrix = counters.matrix_operations * _MATRIX_MULTIPLY_ADDS / rates.matrix_multiply_adds
    work: dict[Bound, float] = {
        "memory": memory_bytes / (profile.bandwidth_gb_s * 1e3 * profile.bandwidth_efficiency),
        "cache": _sector_bytes(counters) / (per_us * rates.cache_bytes),
        "compute": (counters.float_operations / rates.float_operations / lanes + matrix)
        / busy_per_us,
        "special": counters.special_operations / rates.special_operations / lanes / busy_per_us,
        "integer": counters.integer_operations / rates.integer_operations / lanes / busy_per_us,
        "threadgroup": _threadgroup_cycles(counters, profile) / per_us,
        "latency": parallel.latency_us,
        "dispatch": counters.threadgroups / profile.threadgroups_per_us,
    }
    bounds: dict[Bound, float] = {**work, "launch": profile.launch_us}
    busy_us = sum(us**_OVERLAP for us in work.values()) ** (1 / _OVERLAP)
    time_us = busy_us + profile.launch_us
    return Prediction(
        kernel=counters.kernel,
        chip=profile.name,
        time_us=time_us,
        bound=max(bounds, key=lambda bound: bounds[bound]),
        bounds_us=bounds,
        memory_bytes=memory_bytes,
        bandwidth_share=memory_bytes / time_us / (profile.bandwidth_gb_s * 1e3),
        occupancy=parallel.occupancy,
    )


class _Parallelism:
    """How much of a chip a launch can keep busy."""

    def __init__(self, counters: Counters, profile: ChipProfile) -> None:
        rates = profile.core
        group_threads = max(counters.threads // max(counters.threadgroups, 1), 1)
        by_memory = rates.threadgroup_memory // max(counters.threadgroup_bytes, 1)
        groups_on_core = max(min(rates.threads // group_threads, by_memory), 1)
        self.cores = min(profile.cores, counters.threadgroups)
        """Cores with work."""
        resident = min(counters.threadgroups, profile.cores * groups_on_core)
        threads_on_core = resident * group_threads / self.cores
        self.occupancy = threads_on_core / rates.saturating_threads
        read = sum(b.bytes_read for b in counters.buffers) / max(counters.threads, 1)
        barriers = counters.barriers / max(counters.threadgroups, 1)
        life_us = profile.memory_latency_us * max(1.0, read / _BYTES_IN_FLIGHT)
        life_us += profile.barrier_us * barriers
        self.latency_us = max(counters.threadgroups / resident, 1.0) * life_us
        """What the threads take that stand in one place of the chip, one after the other."""


def _memory_bytes(counters: Counters, profile: ChipProfile) -> int:
    """Every sector comes once; what is asked for again hits the cache as far as it fits.

    The buffers that are asked most often for each of their bytes stay in the cache first: a bias
    or a size does, beside streams of any length.
    """
    total = 0.0
    room = profile.last_cache_bytes
    touched = [b for b in counters.buffers if _unique_bytes(b)]
    for buffer in sorted(touched, key=lambda b: _again_bytes(b) / _unique_bytes(b), reverse=True):
        unique, again = _unique_bytes(buffer), _again_bytes(buffer)
        kept = min(room, unique) if again else 0
        room -= kept
        total += unique + again * (1 - kept / unique)
    return round(total)


def _again_bytes(buffer: BufferTraffic) -> int:
    """What is asked for beyond the first time, no more than the sectors that lanes share."""
    again = max(buffer.bytes_read - buffer.unique_bytes_read, 0)
    again += max(buffer.bytes_written - buffer.unique_bytes_written, 0)
    return min(again, _SECTOR_BYTES * (buffer.sectors_read + buffer.sectors_written))


def _unique_bytes(buffer: BufferTraffic) -> int:
    return _SECTOR_BYTES * (buffer.unique_sectors_read + buffer.unique_sectors_written)


def _sector_bytes(counters: Counters) -> int:
    return _SECTOR_BYTES * sum(b.sectors_read + b.sectors_written for b in counters.buffers)


def _threadgroup_cycles(counters: Counters, profile: ChipProfile) -> float:
    moved = counters.threadgroup_bytes_read + counters.threadgroup_bytes_written
    cycle_of_all_banks = _SIMD_WIDTH * 4 / profile.core.threadgroup_bytes
    return moved / profile.core.threadgroup_bytes + counters.bank_conflicts * cycle_of_all_banks
