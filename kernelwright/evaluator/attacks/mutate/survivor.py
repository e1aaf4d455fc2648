"""Survivors that somebody has read: why they are no gap in the evaluator."""

import re
import tomllib
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib.resources import files

from pydantic import Field, ValidationError

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.mutate.record import Outcome
from kernelwright.metal.diagnostic import Record


class Reason(StrEnum):
    """Why a mutant rightly passes."""

    GEOMETRY = "launch geometry"
    """The launch never brings about what the mutant would do differently."""
    EXACT = "exact arithmetic"
    """Both formulas give the same bits on every input."""
    SAME = "same bits"
    """Other threads, or several, write the same bits to the same places."""
    ROUNDING = "rounding"
    """The results differ by less than the documented bounds allow."""
    POLICY = "policy"
    """docs/evaluator.md leaves the choice to the kernel."""
    BEYOND = "beyond the sizes judged"
    """Wrong at sizes only that a verdict does not promise."""

    @property
    def is_equivalent(self) -> bool:
        """True where no input at all could tell the mutant from its base."""
        return self in (Reason.GEOMETRY, Reason.EXACT, Reason.SAME)


class Explanation(Record):
    """One survivor, or those that are the same mistake in kernels from the same template."""

    operator: str
    id: str = ".*"
    """A pattern over the mutant's id, which its results have: one mutant, or any."""
    task: str = ".*"
    """A pattern over the task's name; everywhere by default."""
    dtype: str = ".*"
    shapes: str = ".*"
    """A pattern over the types of the task's inputs, joined by blanks."""
    before: str = ".*"
    """Patterns over the lines that changed."""
    after: str = ".*"
    reason: Reason
    why: str = Field(min_length=10)

    def covers(self, outcome: Outcome) -> bool:
        """Say whether this explains an outcome."""
        pairs = (
            (self.id, outcome.id),
            (self.task, outcome.task),
            (self.dtype, outcome.dtype),
            (self.shapes, " ".join(outcome.shapes)),
            (self.before, outcome.before),
            (self.after, outcome.after),
        )
        return self.operator == outcome.operator and all(re.fullmatch(p, t) for p, t in pairs)


@cache
def explanations() -> tuple[Explanation, ...]:
    """Read `survivors.toml`.

    Raises:
        InputError: the file is not what is expected.
    """
    path = files("kernelwright.evaluator.attacks.mutate") / "survivors.toml"
    try:
        listed = tomllib.loads(path.read_text()).get("survivor", [])
        return tuple(Explanation.model_validate(entry) for entry in listed)
    except (ValidationError, tomllib.TOMLDecodeError) as e:
        raise InputError(f"survivors.toml explains no survivors: {e}") from e


def explained(outcome: Outcome, known: Iterable[Explanation]) -> Explanation | None:
    """Return the first explanation that covers an outcome."""
    return next((e for e in known if e.covers(outcome)), None)
