"""A region where it was found, what the evaluator made of it, and the file that remembers."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.metal.family import classify


@dataclass
class Occurrence:
    """A distinct region and the families in which the planner chose it."""

    graph: Graph
    fingerprint: str
    families: dict[str, None] = field(default_factory=dict)

    @cached_property
    def kind(self) -> str:
        """What people would call the region: its widest idiom, else its kernel family."""
        named = sorted(ir.idioms(self.graph), key=lambda idiom: -len(idiom.indices))
        if named:
            return named[0].name
        ops = Counter(n.op for n in self.graph.nodes)
        telling = [op for op in ("gather", "gather_axis", "concatenate", "pad") if op in ops]
        return " ".join([str(classify(self.graph).pattern), *telling[:1]])


@dataclass(frozen=True)
class Finding:
    """What became of a region under its first schedules."""

    fingerprint: str
    kind: str
    program: str
    """Id of the program that the first schedule gave."""
    problems: tuple[str, ...]
    """A sentence for each schedule that failed before one passed, or before all had failed."""
    took_s: float

    @property
    def passed(self) -> bool:
        """True when the very first schedule gave a correct program."""
        return not self.problems

    def line(self) -> str:
        """Say it in a line of a terminal."""
        mark = "passes" if self.passed else f"FAILS  {'; '.join(self.problems)}"
        return f"{self.fingerprint[:10]} {self.kind:24} {self.took_s:6.1f} s  {mark}"


class Record:
    """Findings in a file, a line each; the last of a region counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Finding] = {}
        if path.exists():
            for text in path.read_text().splitlines():
                values = json.loads(text)
                finding = Finding(**{**values, "problems": tuple(values["problems"])})
                self._found[finding.fingerprint] = finding

    def find(self, fingerprint: str) -> Finding | None:
        """Return the last finding of a region."""
        return self._found.get(fingerprint)

    def keep(self, finding: Finding) -> None:
        """Append a finding, so that a sweep that is stopped loses nothing."""
        self._found[finding.fingerprint] = finding
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(finding)) + "\n")
