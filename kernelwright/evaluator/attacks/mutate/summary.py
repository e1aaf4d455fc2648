"""What many outcomes come to: a table by operator, and the share that was killed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelwright.evaluator.attacks.mutate.catalog import CHOICES
from kernelwright.evaluator.attacks.mutate.record import Outcome
from kernelwright.evaluator.attacks.mutate.survivor import Explanation, explained
from kernelwright.evaluator.evaluation import Stage


@dataclass
class Tally:
    """What became of the mutants of one operator, or of all."""

    killed: Counter[str] = field(default_factory=Counter)
    """By the stage that refused them."""
    proven: int = 0
    """The same machine code."""
    equal: int = 0
    """Survivors that an explanation shows to be equal on every input."""
    explained: int = 0
    """Survivors that differ, within what is documented."""
    open: int = 0
    """Survivors that nobody has explained."""
    choices: Counter[bool] = field(default_factory=Counter)
    """Of operators that make what docs/evaluator.md leaves to a kernel: accepted, or not."""
    not_compiled: int = 0
    no_verdict: int = 0

    @property
    def judged(self) -> int:
        """Return how many were judged and are not shown to be equivalent."""
        return self.unproven - self.equal

    @property
    def unproven(self) -> int:
        """Return how many were judged and are not proven equivalent by their machine code."""
        return self.killed.total() + self.equal + self.explained + self.open

    @property
    def generated(self) -> int:
        """Return how many there are."""
        other = self.proven + self.choices.total() + self.not_compiled + self.no_verdict
        return self.unproven + other

    @property
    def share_killed(self) -> float:
        """Return the share killed of those not shown to be equivalent."""
        return self.killed.total() / self.judged if self.judged else 1.0

    @property
    def share_killed_of_unproven(self) -> float:
        """Return the share killed of those whose machine code is not their base's."""
        return self.killed.total() / self.unproven if self.unproven else 1.0

    def add(self, outcome: Outcome, why: Explanation | None) -> None:
        """Count one outcome."""
        if outcome.fate == "equivalent":
            self.proven += 1
        elif outcome.fate == "not compiled":
            self.not_compiled += 1
        elif outcome.fate == "no verdict":
            self.no_verdict += 1
        elif outcome.operator in CHOICES:
            self.choices[outcome.fate == "survived"] += 1
        elif outcome.fate == "killed":
            self.killed[outcome.stage.value if outcome.stage else "?"] += 1
        elif why is None:
            self.open += 1
        elif why.reason.is_equivalent:
            self.equal += 1
        else:
            self.explained += 1


@dataclass
class Summary:
    """Outcomes by operator, and the survivors that are left to read."""

    total: Tally = field(default_factory=Tally)
    operators: dict[str, Tally] = field(default_factory=dict)
    unread: list[Outcome] = field(default_factory=list)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], known: Sequence[Explanation]) -> "Summary":
        """Count outcomes."""
        summary = cls()
        for outcome in outcomes:
            survived = outcome.fate == "survived" and outcome.operator not in CHOICES
            why = explained(outcome, known) if survived else None
            if survived and why is None:
                summary.unread.append(outcome)
            for tally in (
                summary.total,
                summary.operators.setdefault(outcome.operator, Tally()),
            ):
                tally.add(outcome, why)
        return summary

    @property
    def table(self) -> str:
        """Return a Markdown table, a row for each operator."""
        stages = [stage.value for stage in Stage if self.total.killed[stage.value]]
        head = ["operator", *stages, "survived", "explained", "equal", "proven", "not compiled"]
        rows = [[name, *_cells(tally, stages)] for name, tally in sorted(self.operators.items())]
        rows.append(["**all**", *_cells(self.total, stages)])
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    @property
    def sentence(self) -> str:
        """Say in three lines what was found."""
        total, choices = self.total, self.total.choices
        return (
            f"{total.generated} generated: {total.proven} proven equivalent, "
            f"{total.not_compiled} did not compile, {total.no_verdict} without a verdict, "
            f"{choices.total()} a kernel's own choice ({choices[True]} accepted)\n"
            f"{total.killed.total()} killed, {total.equal + total.explained} survivors explained "
            f"({total.equal} equal on every input, {total.explained} within what is documented), "
            f"{total.open} unexplained\n"
            f"{100 * total.share_killed_of_unproven:.2f} % killed of {total.unproven} not proven "
            f"equivalent, {100 * total.share_killed:.2f} % of {total.judged} not shown to be equal"
        )


def _cells(tally: Tally, stages: Sequence[str]) -> list[str]:
    counts = [*(tally.killed[stage] for stage in stages), tally.open, tally.explained]
    return [str(n or "") for n in (*counts, tally.equal, tally.proven, tally.not_compiled)]
