"""What earlier searches in a store teach a coder, in sentences that cite their evaluations."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import TypeAdapter

from kernelwright.agents.protocols import Proposal
from kernelwright.agents.roles.lesson import (
    Advice,
    Credit,
    Lesson,
    Observation,
    chosen,
    credit,
    derive,
    note,
    ranked,
)
from kernelwright.campaign.history.ledger import abandoned
from kernelwright.campaign.history.step_memory import StepMemory
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph
from kernelwright.ir.naming.describe import operation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family import classify
from kernelwright.search.step import Credited
from kernelwright.store import KernelStore
from kernelwright.store import Lesson as KeptLesson

_MOST_TRIALS = 500
_TOLD = "LessonsTold"
"""The kind of the line in a run's log that holds what its coders are told."""
_LESSONS = TypeAdapter(tuple[Lesson, ...])


class Experience:
    """The lessons of a store as they stood when a search began.

    A search that takes up a killed one, or replays another, tells what that one told: prompts
    stay the same, so that no reply on record is paid for twice.
    """

    def __init__(self, store: KernelStore, campaign_id: str, replayed: Sequence[str] = ()) -> None:
        self._store = store
        taken_up = (*replayed, *abandoned(store, campaign_id))
        self._steps = StepMemory(store, campaign_id, taken_up)
        told = _told(store, taken_up)
        self._lessons = _learnt(store) if told is None else told
        self._by_id = {lesson.id: lesson for lesson in self._lessons}
        store.log(campaign_id, _TOLD, _LESSONS.dump_json(self._lessons).decode())

    def __call__(self, task: Task, device: DeviceInfo) -> Sequence[Lesson]:
        """Return the lessons that fit a task and a device, within the size of a prompt."""
        return chosen(self._lessons, kind_of(task.graph), device.chip)

    def note(self, task: Task, device: DeviceInfo, text: str, programs: Sequence[str]) -> None:
        """Keep what a model wrote down at a task's end, with the programs that it speaks of."""
        if text.strip() and programs:
            kind = kind_of(task.graph)
            written = note(
                text, kind=kind, device=device.chip, task=task.fingerprint, evidence=programs
            )
            kept = _kept(written, {}).model_copy(update={"state": "proposed"})
            self._store.dialogue.keep_lesson(kept)

    def credited(self, task: Task, credited: Credited) -> None:
        """Keep what a step for a task cost and gained."""
        self._steps.keep(kind_of(task.graph), credited)

    def earlier(self, task: Task) -> Sequence[Credited]:
        """Return what steps cost and gained in earlier campaigns."""
        return self._steps.about(kind_of(task.graph))

    def learn(self, proposal: Proposal, evaluation: Evaluation, *, leads: bool) -> None:
        """Credit the lessons under which a program was written with its verdict."""
        for lesson in (self._by_id[i] for i in proposal.lessons if i in self._by_id):
            found = credit(lesson, proposal.program, evaluation, leads=leads)
            if found.helped or found.hurt:
                self._store.dialogue.credit_lesson(lesson.id, helped=found.helped, hurt=found.hurt)


def _learnt(store: KernelStore) -> tuple[Lesson, ...]:
    """Derive the lessons of a store, write them down, and rank them by what became of them."""
    lessons = derive(tuple(observations(store)))
    known = store.dialogue.lessons()
    earned = {kept.id: Credit(helped=kept.helped, hurt=kept.hurt) for kept in known}
    for lesson in lessons:
        store.dialogue.keep_lesson(_kept(lesson, earned))
    # What a model proposed is derived from nothing: it is read back as it was written.
    notes = [_noted(kept) for kept in known if kept.state == "proposed"]
    return ranked((*lessons, *notes), earned)


def _noted(kept: KeptLesson) -> Lesson:
    return Lesson(
        kind=kept.signature,
        subject="",
        kept_as=kept.id,
        advice=Advice.NOTE,
        text=kept.text,
        evidence=kept.evidence,
        device=kept.device or "",
        strength=1.0,
    )


def _told(store: KernelStore, runs: Sequence[str]) -> tuple[Lesson, ...] | None:
    """Return what a run before this one told its coders, None where none got so far."""
    for run in runs:
        for event in store.events(run):
            if event.kind == _TOLD:
                return _LESSONS.validate_json(event.body)
    return None


def observations(store: KernelStore) -> Iterator[Observation]:
    """Yield the latest verdict on each of the latest candidates."""
    seen: set[str] = set()
    for entry in store.history(limit=_MOST_TRIALS):
        if entry.candidate_id in seen or entry.status is None:
            continue
        seen.add(entry.candidate_id)
        detail = store.show(entry.candidate_id)
        if detail.evaluations:
            latest = detail.evaluations[0]
            yield Observation(
                evaluation_id=latest.id,
                kind=kind_of(detail.graph),
                program=detail.program,
                evaluation=latest.evaluation,
            )


def kind_of(graph: Graph) -> str:
    """Name the family of kernels that a task belongs to, its ops where templates have none."""
    pattern = classify(graph).pattern.value
    return operation(graph) if pattern == "none" else pattern


def _kept(lesson: Lesson, earned: Mapping[str, Credit]) -> KeptLesson:
    found = earned.get(lesson.id, Credit())
    return KeptLesson(
        id=lesson.id,
        text=lesson.text,
        signature=lesson.kind,
        device=lesson.device[:32],
        state="refuted" if found.is_spent(lesson.advice) else "trusted",
        evidence=lesson.evidence,
        helped=found.helped,
        hurt=found.hurt,
    )
