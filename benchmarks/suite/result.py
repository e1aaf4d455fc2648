"""What a run of the suite leaves: one record per workload and dtype, and the machine."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from pydantic import Field

from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record


class ScheduleResult(Record):
    """One candidate of one region, timed alone to choose among schedules."""

    region: int
    operation: str
    schedule: str
    measured_us: float | None = None
    predicted_us: float | None = None
    bound: str = ""
    problem: str = ""
    """Why it was not timed: a compile error, a wrong result."""
    is_chosen: bool = False


class WorkloadResult(Record):
    """One workload at one dtype, stitched from its regions, against every baseline."""

    name: str
    group: str
    model: str
    dtype: Dtype
    is_memory_bound: bool
    bytes_moved: int
    """Inputs read once and outputs written once: the least there is."""
    regions: int
    nodes_left: int
    """Nodes that no region covers, run by MLX."""
    candidate_us: float | None = None
    baselines_us: Mapping[str, float] = Field(default_factory=dict)
    """By MLX's way: `eager`, `compile`, and `fast` where `mx.fast` computes it or a part of it."""
    fastest_baseline: str = ""
    """The way with the least median; empty in rows that older runs left."""
    speedups: tuple[Speedup, ...] = ()
    schedules: tuple[ScheduleResult, ...] = ()
    copy_us: float | None = None
    """What a copy takes that moves as many bytes, by the same protocol."""
    problem: str = ""
    confirmed: Speedup | None = None
    """Against the fastest baseline, in a fresh process with fresh inputs and reversed order."""

    @property
    def speedup(self) -> Speedup | None:
        """Return the comparison with the fastest baseline."""
        return min(self.speedups, key=lambda s: s.ratio, default=None)

    def share_of_copy(self, bytes_per_s: float) -> float | None:
        """Return the achieved share of the measured copy bandwidth."""
        if self.candidate_us is None:
            return None
        return self.bytes_moved / (self.candidate_us * 1e-6) / bytes_per_s

    @property
    def share_of_own_copy(self) -> float | None:
        """Return the achieved share of what a copy of as many bytes reaches."""
        if self.candidate_us is None or self.copy_us is None:
            return None
        return self.copy_us / self.candidate_us


class SuiteRun(Record):
    """Everything from one machine in one run."""

    device: DeviceInfo
    mlx: str
    copy_bytes_per_s: float
    """Measured in the same run, reads and writes counted."""
    launch_us: float
    """What an empty launch costs."""
    seed: int
    results: tuple[WorkloadResult, ...]

    def with_rows_of(self, later: "SuiteRun", names: Collection[str] = ()) -> "SuiteRun":
        """Take rows of a later run in the place of this one's: all of them, or some by name.

        Each row was timed beside its own baselines; the copy's bandwidth stays this run's.

        Raises:
            InputError: the runs are of different devices.
        """
        if (later.device, later.mlx) != (self.device, self.mlx):
            raise InputError(
                f"expected runs of one device, found {self.device.chip} and {later.device.chip}."
            )
        fresh = {(r.name, r.dtype): r for r in later.results if not names or r.name in names}
        kept = [fresh.pop((r.name, r.dtype), r) for r in self.results]
        return self.model_copy(update={"results": (*kept, *fresh.values())})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a run from its JSON file.

        Raises:
            InputError: there is no such file, or it holds no run.
        """
        try:
            return cls.model_validate_json(path.read_text())
        except (OSError, ValueError) as e:
            raise InputError(f"expected the JSON of a suite run at {path}: {e}") from e
