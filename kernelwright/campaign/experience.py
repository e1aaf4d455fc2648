"""What earlier searches in a store teach a coder, in sentences that cite their evaluations."""

import hashlib
from collections.abc import Iterator, Sequence

from kernelwright.agents.lesson import Lesson, Observation, chosen, derive
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, classify
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore
from kernelwright.store import Lesson as KeptLesson

_MOST_TRIALS = 500


class Experience:
    """The lessons of a store as they stand when a search begins."""

    def __init__(self, store: KernelStore) -> None:
        self._lessons = derive(tuple(observations(store)))
        for lesson in self._lessons:
            store.dialogue.keep_lesson(_kept(lesson))

    def __call__(self, task: Task, device: DeviceInfo) -> Sequence[str]:
        """Return the sentences that fit a task and a device, within the size of a prompt."""
        return chosen(self._lessons, kind_of(task.graph), device.chip)


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
    """Name the family of kernels that a task belongs to."""
    return classify(graph).pattern.value


def _kept(lesson: Lesson) -> KeptLesson:
    identity = f"{lesson.device}\0{lesson.kind}\0{lesson.text}"
    return KeptLesson(
        id=hashlib.sha256(identity.encode()).hexdigest(),
        text=lesson.text,
        signature=lesson.kind,
        device=lesson.device[:32],
        state="trusted",
        evidence=lesson.evidence,
    )
