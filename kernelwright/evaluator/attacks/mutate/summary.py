"""What many outcomes come to: a table by operator, and the share that was killed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelwright.evaluator.attacks.mutate.record import Outcome
from kernelwright.evaluator.attacks.mutate.survivor import Explanation, explained
from kernelwright.evaluator.evaluation import Stage


@dataclass
class Tally:
    """What became of the mutants of one operator, or of all."""

    killed: Counter[str] = field(default_factory=Counter)
    """By the stage that refused them."""
    equivalent: int = 0
    """Proven: the same machine code, or explained as equal on every input."""
    explained: int = 0
    """Survivors that differ, within what is documented."""
    open: int = 0
    """Survivors that nobody has explained."""
    not_compiled: int = 0
    no_verdict: int = 0

    @property
    def judged(self) -> int:
        """Return how many were judged and are not proven equivalent."""
        return self.killed.total() + self.explained + self.open

    @property
    def share_killed(self) -> float:
        """Return the share killed of those not proven equivalent."""
        return self.killed.total() / self.judged if self.judged else 1.0

    def add(self, outcome: Outcome, why: Explanation | None) -> None:
        """Count one outcome."""
        if outcome.fate == "killed":
            self.killed[outcome.stage.value if outcome.stage else "?"] += 1
        elif outcome.fate == "equivalent" or (why is not None and why.reason.is_equivalent):
            self.equivalent += 1
        elif outcome.fate == "survived":
            self.explained += why is not None
            self.open += why is None
        elif outcome.fate == "not compiled":
            self.not_compiled += 1
        else:
            self.no_verdict += 1


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
            survived = outcome.fate == "survived"
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
        head = ["operator", *stages, "survived", "explained", "equivalent", "not compiled"]
        rows = [[name, *_cells(tally, stages)] for name, tally in sorted(self.operators.items())]
        rows.append(["**all**", *_cells(self.total, stages)])
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    @property
    def sentence(self) -> str:
        """Say in a line what was found."""
        total = self.total
        return (
            f"{100 * total.share_killed:.2f} % killed of {total.judged} mutants that are not "
            f"proven equivalent: {total.killed.total()} killed, {total.explained} explained, "
            f"{total.open} to be read; {total.equivalent} equivalent, {total.not_compiled} did "
            f"not compile, {total.no_verdict} without a verdict"
        )


def _cells(tally: Tally, stages: Sequence[str]) -> list[str]:
    counts = [*(tally.killed[stage] for stage in stages), tally.open, tally.explained]
    return [str(n or "") for n in (*counts, tally.equivalent, tally.not_compiled)]
