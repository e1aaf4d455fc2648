"""What the offline agents make of a catalog task, and the file that remembers it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.ir.graph.dtype import Dtype


@dataclass(frozen=True)
class Solution:
    """How far the offline planner and coder come with one task at one dtype."""

    task: str
    dtype: str
    regions: int
    proved: int
    left: tuple[str, ...]
    """Ops that no region covers, views aside."""
    problem: str = ""
    is_confirmed: bool = False
    """True when every region's program held on hidden cases and in a fresh process too."""
    took_s: float = 0.0

    @property
    def is_solved(self) -> bool:
        """True when verified kernels do all the work."""
        return self.regions > 0 and self.proved == self.regions and not self.left

    def line(self) -> str:
        """Say it in a line of a terminal."""
        mark = "confirmed" if self.is_confirmed else "solved" if self.is_solved else "left"
        return (
            f"{self.task:26s} {self.dtype:4s} {mark:9s} {self.proved}/{self.regions} "
            f"{self.took_s:5.1f} s {' '.join(self.left)} {self.problem[:120]}"
        )


class Ledger:
    """Solutions in a file, a line each; the last of a task and dtype counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Solution] = {}
        for text in path.read_text().splitlines() if path.exists() else ():
            values = json.loads(text)
            solution = Solution(**{**values, "left": tuple(values["left"])})
            self._found[solution.task, solution.dtype] = solution

    def find(self, task: str, dtype: Dtype) -> Solution | None:
        """Return the last solution of a task."""
        return self._found.get((task, dtype.short))

    def keep(self, solution: Solution) -> None:
        """Append a solution, so that a run that is stopped loses nothing."""
        self._found[solution.task, solution.dtype] = solution
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(solution)) + "\n")
