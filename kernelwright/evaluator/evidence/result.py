"""Verdicts side by side, as they are written and compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

_RIGHT = ("correct", "promoted")


class Finding(Record):
    """One device's verdict on a subject."""

    status: str
    summary: str
    measured_us: float | None = None
    predicted_us: float | None = None
    speedups: dict[str, float] = Field(default_factory=dict)
    duration_s: float = 0.0

    @property
    def outcome(self) -> str:
        """The status; being faster than MLX is no matter of right and wrong."""
        return "correct" if self.status in _RIGHT else self.status


class Row(Record):
    """A subject with each device's verdict."""

    name: str
    kind: str
    expect: tuple[str, ...]
    findings: dict[str, Finding]
    takes_strides: bool = False
    """A kernel that promises to take any strides: on the cuda device its inputs are dense."""

    @property
    def differs(self) -> bool:
        """True when the devices disagree, two right refusals of a mutant excepted."""
        return len({f.outcome for f in self._telling}) > 1 and self.is_astray

    @property
    def is_astray(self) -> bool:
        """True when a verdict is none of those that are right."""
        return any(f.status not in self.expect for f in self._telling)

    @property
    def _telling(self) -> list[Finding]:
        """The findings that say something about the program: all but a broken promise unseen."""
        return [
            finding
            for device, finding in self.findings.items()
            if not (self.takes_strides and device == "cuda" and finding.outcome == "correct")
        ]


Read = TypeVar("Read", bound=Record)


def load_record(kind: type[Read], path: Path, what: str, advice: str = "") -> Read:
    """Read a record's file.

    Raises:
        InputError: there is no such file, or it holds nothing of the kind.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror}.") from e
    except ValidationError as e:
        raise InputError(
            f"{path} holds no {what}: {e.error_count()} fields do not fit{advice}."
        ) from e


class Comparison(Record):
    """Everything that was judged in one run."""

    devices: tuple[str, ...]
    through: str
    subjects: int
    """How many there were; more than `rows` when time ran out."""
    seconds: float
    rows: tuple[Row, ...]

    @classmethod
    def load(cls, path: Path) -> "Comparison":
        """Read a run's file.

        Raises:
            InputError: there is no such file, or it holds no run.
        """
        return load_record(cls, path, "verdicts")

    def table(self) -> str:
        """Return what a person has to look at: differences, and verdicts that are not right."""
        noted = [r for r in self.rows if r.differs or r.is_astray]
        lines = [line for row in noted for line in _lines(row)]
        return "\n".join([*lines, self._score()])

    def _score(self) -> str:
        rows: Sequence[Row] = self.rows
        kinds = {
            kind: sum(r.kind == kind for r in rows) for kind in dict.fromkeys(r.kind for r in rows)
        }
        judged = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return (
            f"{len(rows)} of {self.subjects} judged on {' and '.join(self.devices)} ({judged}): "
            f"{sum(r.differs for r in rows)} differ, {sum(r.is_astray for r in rows)} are not as "
            f"expected; {self.seconds:.0f} s"
        )


def _lines(row: Row) -> list[str]:
    mark = "DIFFERS" if row.differs else "ASTRAY"
    head = f"{mark} {row.kind} {row.name} (expected {' or '.join(row.expect)})"
    return [head, *(f"    {d}: {f.status}: {f.summary[:300]}" for d, f in row.findings.items())]
