"""What verdicts teach across tasks, in sentences that cite them; no model has a say."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

LONGEST_TOTAL = 2000
"""Characters of lessons that a prompt may hold."""
LONGEST_NOTE = 400
_MOST_CITED = 6
_LEAST_TASKS = 2
_LEAST_FAILURES = 3
_DECIDED = 0.7
_MOST_HURT = 3
"""Verdicts by which harm may exceed help before a lesson is told no more."""
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")

_TRAITS: Mapping[str, re.Pattern[str]] = {
    "vector loads": re.compile(r"\b(?:float|half|bfloat|uint|int)[24]\s*\*|vec<\w+,\s*[24]>\s*\*"),
    "simdgroup reductions": re.compile(r"\bsimd_(?:sum|max|min|product|shuffle\w*)\b"),
    "threadgroup memory": re.compile(r"\bthreadgroup\s+\w+\s+\w+\s*\["),
    "simdgroup matrices": re.compile(r"\bsimdgroup_(?:multiply\w*|load|matrix)\b"),
    "fast math": re.compile(r"\bfast::"),
    "unrolled loops": re.compile(r"#pragma\s+(?:clang loop\s+)?unroll"),
}


class Observation(Record):
    """A verdict that the store keeps, and what it was about."""

    evaluation_id: str
    kind: str
    """What its task computes, such as `rowwise`."""
    program: Program
    evaluation: Evaluation


class Advice(StrEnum):
    """What a lesson tells a coder to do about its subject."""

    USE = "use"
    AVOID = "avoid"
    """A technique that lost."""
    PREVENT = "prevent"
    """An error that keeps coming back."""
    NOTE = "note"
    """What a model wrote down at a task's end: told where the family matches, while it helps."""


class Lesson(Record):
    """One sentence with the evaluations that support it."""

    kind: str
    subject: str
    """A technique, or the words of an error: what the lesson is about, whatever its counts."""
    advice: Advice
    text: str
    evidence: tuple[str, ...]
    device: str
    strength: float
    """Tasks that it rests on, weighted by how clearly they agree."""
    kept_as: str = ""
    """The id under which a store keeps it, where nothing else says what it is about."""

    @property
    def id(self) -> str:
        """64 hex digits that stay the same while the evidence grows."""
        if self.kept_as:
            return self.kept_as
        identity = "\0".join((self.device, self.kind, self.advice, self.subject))
        return hashlib.sha256(identity.encode()).hexdigest()

    @property
    def sentence(self) -> str:
        """Say it with how much it rests on, as prompts do."""
        count = len(self.evidence)
        source = "a model's note on" if self.advice is Advice.NOTE else "from"
        return f"{self.text} ({source} {count} verdict{'s' if count != 1 else ''})"


class Credit(Record):
    """What became of programs that were written under a lesson."""

    helped: int = 0
    hurt: int = 0

    @property
    def net(self) -> int:
        """How much more it helped than hurt."""
        return self.helped - self.hurt

    def is_spent(self, advice: "Advice") -> bool:
        """Say whether nobody should be told any more.

        A lesson from verdicts is dropped when it did much more harm than good; a model's note when
        it does not help: when fewer than one in three programs written under it led.
        """
        if advice is Advice.NOTE:
            return self.hurt >= _MOST_HURT + 2 * self.helped
        return -self.net >= _MOST_HURT


NO_CREDIT = Credit()


def note(text: str, *, kind: str, device: str, task: str, evidence: Sequence[str]) -> Lesson:
    """Return what a model says is worth knowing about a task's family, as a lesson on probation."""
    return Lesson(
        kind=kind,
        subject=task,
        advice=Advice.NOTE,
        text=" ".join(text.split())[:LONGEST_NOTE],
        evidence=tuple(evidence[-_MOST_CITED:]),
        device=device,
        strength=1.0,
    )


def derive(observations: Sequence[Observation]) -> tuple[Lesson, ...]:
    """Return all lessons that the verdicts bear out, strongest first."""
    lessons = [*_comparisons(observations), *_warnings(observations)]
    return tuple(sorted(lessons, key=lambda lesson: (-lesson.strength, lesson.text)))


def ranked(lessons: Iterable[Lesson], earned: Mapping[str, Credit]) -> tuple[Lesson, ...]:
    """Return the lessons worth telling, those that helped most first.

    `earned` holds what became of each lesson so far, by its id.
    """
    credited = [(earned.get(lesson.id, NO_CREDIT), lesson) for lesson in lessons]
    kept = [
        (credit.net, lesson) for credit, lesson in credited if not credit.is_spent(lesson.advice)
    ]
    return tuple(
        lesson
        for _, lesson in sorted(kept, key=lambda pair: (-pair[0], -pair[1].strength, pair[1].text))
    )


def chosen(lessons: Iterable[Lesson], kind: str, device: str) -> tuple[Lesson, ...]:
    """Return the first lessons that fit a task and a device, within the size limit."""
    fitting: list[Lesson] = []
    room = LONGEST_TOTAL
    for lesson in lessons:
        if lesson.device != device or lesson.kind not in ("", kind):
            continue
        if len(lesson.sentence) <= room:
            fitting.append(lesson)
            room -= len(lesson.sentence)
    return tuple(fitting)


def credit(lesson: Lesson, program: Program, evaluation: Evaluation, *, leads: bool) -> Credit:
    """Say what a verdict on a program that was written under a lesson speaks for.

    A technique helps where a program that follows the lesson leads its task, and hurts where such
    a program fails; a warning helps where the error stays away, and hurts where it comes again. A
    note helps where a program leads that was written under it, and else takes room in vain.
    """
    if lesson.advice is Advice.NOTE:
        return Credit(helped=int(leads), hurt=int(not leads))
    if lesson.advice is Advice.PREVENT:
        recurs = _failure(evaluation) == lesson.subject
        return Credit(helped=int(not recurs), hurt=int(recurs))
    uses = lesson.subject in traits_of(program)
    if uses is not (lesson.advice is Advice.USE):
        return NO_CREDIT
    return Credit(helped=int(leads), hurt=int(not evaluation.is_correct))


def traits_of(program: Program) -> frozenset[str]:
    """Return the techniques that a program uses."""
    text = "\n".join(f"{k.header}\n{k.source}" for k in program.kernels)
    found = {name for name, pattern in _TRAITS.items() if pattern.search(text)}
    if len(program.kernels) > 1:
        found.add("several kernels")
    return frozenset(found)


def speed_us(evaluation: Evaluation) -> float | None:
    """Return what a correct program takes, measured where possible; None when unknown."""
    if not evaluation.is_correct:
        return None
    for samples in evaluation.samples:
        if samples.arm == "candidate" and samples.nanoseconds:
            return sorted(samples.nanoseconds)[len(samples.nanoseconds) // 2] / 1000
    return evaluation.predicted_us


_Timed = tuple[float, Observation]


def _comparisons(observations: Sequence[Observation]) -> Iterator[Lesson]:
    """Compare, task by task, the fastest program with a technique and the fastest without."""
    groups: dict[tuple[str, str], list[_Timed]] = defaultdict(list)
    for observation in observations:
        time_us = speed_us(observation.evaluation)
        if time_us is not None:
            key = (observation.evaluation.device.chip, observation.kind)
            groups[key].append((time_us, observation))
    for (device, kind), timed in sorted(groups.items(), key=lambda item: item[0]):
        for trait in (*_TRAITS, "several kernels"):
            yield from _comparison(trait, timed, device, kind)


def _comparison(trait: str, timed: list[_Timed], device: str, kind: str) -> Iterator[Lesson]:
    sides: dict[str, dict[bool, _Timed]] = defaultdict(dict)
    for time_us, observation in timed:
        uses = trait in traits_of(observation.program)
        best = sides[observation.evaluation.task]
        if uses not in best or time_us < best[uses][0]:
            best[uses] = (time_us, observation)
    compared = [best for best in sides.values() if len(best) == 2]
    won = [best for best in compared if best[True][0] < best[False][0]]
    share = len(won) / len(compared) if compared else 0.5
    if len(compared) < _LEAST_TASKS or 1 - _DECIDED < share < _DECIDED:
        return
    is_won = share >= _DECIDED
    verb, count = ("won", len(won)) if is_won else ("lost", len(compared) - len(won))
    cited = [best[is_won][1].evaluation_id for best in compared]
    yield Lesson(
        kind=kind,
        subject=trait,
        advice=Advice.USE if is_won else Advice.AVOID,
        text=f"{trait.capitalize()} {verb} on {count} of {len(compared)} {kind} tasks.",
        evidence=tuple(cited[:_MOST_CITED]),
        device=device,
        strength=len(compared) * abs(2 * share - 1),
    )


def _warnings(observations: Sequence[Observation]) -> Iterator[Lesson]:
    """Name the errors that keep coming back."""
    seen: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for observation in observations:
        if words := _failure(observation.evaluation):
            seen[observation.evaluation.device.chip, words].append(observation)
    for (device, words), failures in sorted(seen.items(), key=lambda item: item[0]):
        if len(failures) >= _LEAST_FAILURES:
            yield Lesson(
                kind="",
                subject=words,
                advice=Advice.PREVENT,
                text=f"{len(failures)} programs failed because {words}.",
                evidence=tuple(o.evaluation_id for o in failures[:_MOST_CITED]),
                device=device,
                strength=len(failures) / 2,
            )


def _failure(evaluation: Evaluation) -> str:
    """Say what kind of error a program failed by, without its names; empty for the other ends."""
    if evaluation.status is Status.COMPILE_ERROR and evaluation.diagnostics:
        return f"the compiler said: {_WORD.sub('…', evaluation.diagnostics[0].message)}"
    if evaluation.status is Status.UNSAFE and evaluation.reports:
        return f"the sanitizer found: {evaluation.reports[0].kind.value}"
    return ""
