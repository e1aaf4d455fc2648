"""Candidates timed by the GPU's own clock: the record, which `stopwatch.py` makes."""

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks.suite.counting import Key
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

_SYMBOL = "kw_kernel"
"""What translated kernels are called."""


class KernelTime(Record):
    """What one candidate took, launch after launch in a CUDA graph, on rotating inputs."""

    workload: str
    dtype: str
    region: int
    schedule: str
    median_us: float
    low_us: float
    """The fastest replay of all processes, and the slowest: two times that share none differ."""
    high_us: float
    registers: int
    """That the compiled kernel takes of each thread."""
    instructions: int | None = None
    """Executed by all simdgroups, where Nsight Compute counted them."""

    @property
    def key(self) -> Key:
        """Return what names the candidate in counters and runs."""
        return self.workload, self.dtype, self.region, self.schedule


def _executed(profile: Path) -> Iterator[int]:
    """Yield the instructions of each launch of a candidate in what Nsight Compute printed."""
    lines = profile.read_text().splitlines()
    table = [line for line in lines if line.startswith('"')]
    for row in csv.DictReader(table):
        if row["Kernel Name"].startswith(_SYMBOL):
            yield int(row["smsp__inst_executed.sum"].replace(",", ""))


class Timing(Record):
    """All candidates that were timed on one machine."""

    chip: str
    driver: str = ""
    copy_bytes_per_s: float
    launch_us: float
    """What an empty kernel takes in a graph."""
    replays: int
    kernels: tuple[KernelTime, ...]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what was timed.

        Raises:
            InputError: there is no such file, or it holds no times.
        """
        try:
            return cls.model_validate_json(path.read_text())
        except (OSError, ValueError) as e:
            raise InputError(f"expected the JSON of timed kernels at {path}: {e}") from e

    @classmethod
    def gather(cls, paths: Sequence[Path], profiles: Sequence[Path] = ()) -> Self:
        """Join what several processes of `stopwatch.py` measured of the same candidates.

        Args:
            paths: What they wrote.
            profiles: What Nsight Compute printed of the same launches, in their order.

        Raises:
            InputError: two files are of other candidates or chips.
        """
        runs = [json.loads(path.read_text()) for path in paths]
        names = ("workload", "dtype", "region", "schedule")
        keys = [[tuple(k[name] for name in names) for k in run["kernels"]] for run in runs]
        if any(k != keys[0] for k in keys) or len({run["chip"] for run in runs}) != 1:
            raise InputError("expected the same candidates on the same chip in every file.")
        executed = iter([row for path in profiles for row in _executed(path)])
        kernels = []
        for same in zip(*(run["kernels"] for run in runs), strict=True):
            times = np.concatenate([kernel["us"] for kernel in same])
            spread = {"low_us": times.min(), "high_us": times.max(), "median_us": np.median(times)}
            rounded = {name: round(float(us), 3) for name, us in spread.items()}
            kept = {name: same[0][name] for name in (*names, "registers")}
            launches = list(islice(executed, same[0]["launches"])) if profiles else [None]
            total = None if None in launches else sum(launches)
            kernels.append(KernelTime.model_validate({**kept, **rounded, "instructions": total}))
        return cls(
            chip=runs[0]["chip"],
            copy_bytes_per_s=float(np.median([run["copy_bytes_per_s"] for run in runs])),
            launch_us=float(np.median([run["launch_us"] for run in runs])),
            replays=len(times),
            kernels=tuple(kernels),
        )
