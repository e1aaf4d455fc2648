"""The figures of docs/reliability.md, between its marks."""

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reliability.sweep import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"


@dataclass
class Figures:
    """What the three parts of a sweep did and found."""

    machine: str
    place: str = "sqlite"
    killed: Tally = field(default_factory=Tally)
    faulty: Tally = field(default_factory=Tally)
    real: Tally = field(default_factory=Tally)
    minutes: float = 0.0

    def add(self, other: "Figures") -> None:
        """Add what another process did and found."""
        self.killed.add(other.killed)
        self.faulty.add(other.faulty)
        self.real.add(other.real)

    @property
    def problems(self) -> list[str]:
        """Everything that did not hold."""
        return [*self.killed.problems, *self.faulty.problems, *self.real.problems]

    @property
    def table(self) -> str:
        """Return the figures as Markdown."""
        parts = {
            "kills": self.killed,
            "faults": self.faulty,
            "on the simulator itself": self.real,
        }
        head = (
            "| part | campaigns | lives | kills | faults | caps raised | evaluations | again "
            "| calls | other champions | broken promises |"
        )
        rows = [
            f"| {name} | {t.campaigns} | {t.lives} | {t.kills.total():,} | {t.faults.total():,} "
            f"| {t.raised} | {t.evaluations:,} | {t.repeated} | {t.calls:,} | {t.other_champions} "
            f"| {len(t.problems)} |"
            for name, t in parts.items()
        ]
        lines = [
            f"{self.machine}; {self.minutes:.0f} minutes.",
            "",
            head,
            "|---|" + "---:|" * 10,
            *rows,
            "",
            "Kills: " + _counts(self.killed.kills + self.real.kills) + ".",
            "",
            "Faults: " + _counts(self.faulty.faults + self.real.faults) + ".",
            "",
        ]
        if self.problems:
            lines += ["What did not hold:", "", *(f"- {p}" for p in self.problems), ""]
        return "\n".join(lines)


def write(figures: Figures) -> None:
    """Put the figures into the page."""
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{figures.table}{END}{after}")


def _counts(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in ordered)
