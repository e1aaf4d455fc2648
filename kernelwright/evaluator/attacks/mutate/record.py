"""What mutation testing speaks of: an operator, the mutants it makes of a text, what became of one.

Mutation testing (R. DeMillo, R. Lipton, F. Sayward 1978) breaks a right program in small ways and
asks whether the tests notice. Here the program is a kernel and the tests are the evaluator.
"""

import difflib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from kernelwright.evaluator.attacks.mutate.text import Change, MetalText
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

Fate = Literal["killed", "survived", "equivalent", "not compiled", "no verdict"]
"""`equivalent` is proven: both texts compile to the same machine code."""
Group = Literal[
    "bounds",
    "indices",
    "tails",
    "barriers",
    "casts",
    "accumulators",
    "sentinels",
    "conditions",
    "integers",
    "operands",
    "terms",
    "guards",
    "constants",
    "functions",
    "simdgroup",
    "threads",
    "statements",
    "inputs",
    "launch",
]


@dataclass(frozen=True, slots=True)
class TextMutant:
    """A text with one mistake."""

    operator: str
    line: int
    """Where the mistake begins, from 1."""
    source: str
    before: str
    """The lines that changed, as they were, joined by ` / `."""
    after: str


@dataclass(frozen=True, slots=True)
class TextOperator:
    """A kind of mistake in Metal text, made at every place where it can be."""

    name: str
    group: Group
    what: str
    """What it changes, in a few words."""
    find: Callable[[MetalText], Iterable[Change]]
    shows_in_code: bool = True
    """False where machine code of this host may stay the same although a GPU's would not."""
    is_choice: bool = False
    """docs/evaluator.md leaves this to a kernel: it is a mistake only where results suffer."""

    def mutants(self, text: MetalText) -> Iterator[TextMutant]:
        """Yield every mutant of a text, in the order of their places; equal ones once."""
        seen = {text.source}
        for change in self.find(text):
            source = text.with_change(change)
            if source in seen:
                continue
            seen.add(source)
            line = text.source.count("\n", 0, change.start) + 1
            yield TextMutant(self.name, line, source, *_changed_lines(text.source, source))


def _changed_lines(old: str, new: str) -> tuple[str, str]:
    """Return what differs, with everything that a reader can do without left out."""
    before, after = old.split("\n"), new.split("\n")
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    gone, come = list[str](), list[str]()
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            gone += [line.strip() for line in before[a:b]]
            come += [line.strip() for line in after[c:d]]
    return " / ".join(filter(None, gone)), " / ".join(filter(None, come))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one mistake in a kernel's text or launch."""

    operator: str
    kernel: int
    """Which of the program's kernels."""
    file: Literal["header", "source", "launch"]
    line: int
    """0 for a launch."""
    before: str
    after: str
    program: Program
    shows_in_code: bool = True

    @property
    def id(self) -> str:
        """16 hex digits that name the mutant on every machine."""
        return hashlib.sha256(f"{self.operator}|{self.program.id}".encode()).hexdigest()[:16]

    @property
    def place(self) -> str:
        """Say where the mistake is."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"kernel {self.kernel} {where}"


class Outcome(Record):
    """What became of one mutant: a line of a results file."""

    id: str
    task: str
    fingerprint: str
    """Of the task."""
    dtype: str
    shapes: tuple[str, ...]
    """Of the task's inputs."""
    schedule: str
    operator: str
    group: Group
    place: str
    before: str
    after: str
    fate: Fate
    status: Status | None = None
    stage: Stage | None = None
    """The stage that refused it; None where none did."""
    summary: str = ""
    seconds: float = 0.0
