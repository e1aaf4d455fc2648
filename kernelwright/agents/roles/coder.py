"""A coder that asks a language model for programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.roles.dedup import signature
from kernelwright.agents.roles.feedback import outcome, profile
from kernelwright.agents.roles.graph_text import task_text
from kernelwright.agents.roles.lesson import Lesson
from kernelwright.agents.roles.prompt import build, example_texts, render
from kernelwright.agents.roles.reply_schema import ProgramDraft, Programs, drafted
from kernelwright.agents.roles.task_signature import Interface
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.errors import InputError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo

Lessons = Callable[[Task, DeviceInfo], Sequence[Lesson]]
"""Gives the lessons that fit a task and a device, most helpful first."""
_MOST_ATTEMPTS = 12
_MOST_LESSONS = 8
_LONGEST_LESSON = 300


def no_lessons(task: Task, device: DeviceInfo) -> Sequence[Lesson]:
    """Return nothing: nothing has been learnt."""
    return ()


@dataclass(frozen=True)
class Brief:
    """What is asked of a coder beside the task and its history."""

    count: int
    improve: Attempt | None = None
    """The program to start from; None asks for new ideas."""
    strategy: str = ""
    """What the planner had in mind."""
    lessons: tuple[Lesson, ...] = ()


class ModelCoder:
    """Asks for several programs at once; what is no program, or known already, goes no further."""

    def __init__(
        self,
        board: AsyncBridge,
        lessons: Lessons = no_lessons,
        strategies: Mapping[str, str] | None = None,
    ) -> None:
        self._board = board
        self._lessons = lessons
        self._strategies = {} if strategies is None else strategies

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        improve: Attempt | None = None,
    ) -> Sequence[Proposal]:
        """Propose new programs, or better ones than `improve`."""
        interface = Interface(task)
        known = {signature(attempt.proposal.program) for attempt in history}
        parent = improve.proposal.program.id if improve is not None else None
        brief = Brief(
            count=count,
            improve=improve,
            strategy=self._strategies.get(task.fingerprint, ""),
            lessons=tuple(self._lessons(task, device))[:_MOST_LESSONS],
        )
        prompt = coder_prompt(task, device, history, brief)
        purpose = Purpose(role="coder", task=task.fingerprint, parent=parent)
        try:
            answer = self._board.ask(
                prompt, Programs, purpose, lambda reply: _unusable(reply, interface, known)
            )
        except ReplyError:
            return ()
        usable = _usable(answer.record, interface, known)[:count]
        return [
            Proposal(
                program=draft.program(interface),
                author=answer.model,
                idea=draft.idea,
                parent=parent,
                dollars=answer.cost.dollars / len(usable),
                seconds=answer.latency_s / len(usable),
                lessons=tuple(lesson.id for lesson in brief.lessons),
            )
            for draft in usable
        ]


def coder_prompt(
    task: Task, device: DeviceInfo, history: Sequence[Attempt], brief: Brief
) -> Prompt:
    """Render what a coder is told."""
    best = brief.improve or best_of(history)
    request = render(
        "write",
        {
            "count": brief.count,
            "improve": brief.improve is not None,
            "strategy": brief.strategy,
            "lessons": [lesson.sentence[:_LONGEST_LESSON] for lesson in brief.lessons],
            "champion": None if best is None else shown(best, Interface(task)),
            "attempts": [
                {"idea": a.proposal.idea, "outcome": outcome(a.evaluation)}
                for a in reversed(history[-_MOST_ATTEMPTS:])
            ],
        },
    )
    return build(
        "coder",
        system={"device": device, "examples": example_texts()},
        context=task_text(task, device),
        request=request,
        templates="rules task write",
    )


def best_of(history: Sequence[Attempt]) -> Attempt | None:
    """Return the correct attempt that is fastest as far as is known, the first among equals."""
    correct = [a for a in history if a.evaluation.is_correct]
    return min(correct, key=_slowness, default=None)


def _slowness(attempt: Attempt) -> tuple[float, float]:
    speedups = [s.ratio for s in attempt.evaluation.speedups if s.kind == "measured"]
    predicted = attempt.evaluation.predicted_us
    return -min(speedups, default=0.0), float("inf") if predicted is None else predicted


def shown(attempt: Attempt, interface: Interface) -> dict[str, object]:
    """Return an attempt as templates show it: a draft, its texts apart, its cost."""
    program = attempt.proposal.program
    draft = drafted(program, attempt.proposal.idea, interface).model_dump()
    for kernel in draft["kernels"]:
        kernel["source"] = "(below)"
        kernel["header"] = "(below)" if kernel["header"] else ""
    return {
        "id": program.id[:12],
        "idea": attempt.proposal.idea,
        "draft": json.dumps(draft),
        "kernels": program.kernels,
        "profile": profile(attempt.evaluation),
    }


def _unusable(reply: Programs, interface: Interface, known: set[str]) -> str:
    """Say why nothing in a reply can be tried; empty when something can, or when it is empty."""
    if not reply.programs or _usable(reply, interface, known):
        return ""
    problems = dict.fromkeys(_problem(draft, interface) for draft in reply.programs)
    return "; ".join(problem or "that program has been tried already" for problem in problems)


def _usable(reply: Programs, interface: Interface, known: set[str]) -> list[ProgramDraft]:
    fresh: dict[str, ProgramDraft] = {}
    for draft in reply.programs:
        if not _problem(draft, interface):
            mark = signature(draft.program(interface))
            if mark not in known:
                fresh.setdefault(mark, draft)
    return list(fresh.values())


def _problem(draft: ProgramDraft, interface: Interface) -> str:
    try:
        draft.program(interface)
    except InputError as e:
        return str(e)
    return ""
