"""A coder that holds a conversation with a language model, in which it tries what it writes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.feedback import outcome, speed_of
from kernelwright.agents.roles.floor import floor_of
from kernelwright.agents.roles.graph_text import mlx_text, task_text
from kernelwright.agents.roles.lesson import Lesson
from kernelwright.agents.roles.program_text import shown
from kernelwright.agents.roles.prompt import build, example_texts, render
from kernelwright.agents.roles.task_signature import Interface
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.agents.session.session import Advance, Session
from kernelwright.agents.session.tools.report import verdict_report
from kernelwright.agents.session.tools.schema import tools
from kernelwright.agents.session.tools.toolbox import Toolbox, ToolCaps
from kernelwright.agents.session.workbench import Sibling, Workbench
from kernelwright.evaluator.task import Task
from kernelwright.ir.describe import describe
from kernelwright.metal.device.base import DeviceInfo

Lessons = Callable[[Task, DeviceInfo], Sequence[Lesson]]
"""Gives the lessons that fit a task and a device, most helpful first."""
_MOST_ATTEMPTS = 12
_MOST_LESSONS = 8
_MOST_SIBLINGS = 3
_LONGEST_LESSON = 300
_LONGEST_IDEA = 200
_SLOW_EVALUATION_S = 240.0
"""From here on a cache of five minutes is cold before the verdict is told."""
_OWN_FAILURES = 2
USUAL_TOOL_CAPS = ToolCaps()


def no_lessons(task: Task, device: DeviceInfo) -> Sequence[Lesson]:
    """Return nothing: nothing has been learnt."""
    return ()


@dataclass(frozen=True)
class Brief:
    """What is asked of a coder beside the task and its history."""

    improve: Attempt | None = None
    """The program to start from; None asks for new ideas."""
    strategy: str = ""
    """What the planner had in mind."""
    lessons: tuple[Lesson, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    """Champions of tasks that compute the same at another size or dtype."""


@dataclass
class _Thread:
    """One task's conversations, one after another; the last may be open."""

    session: Session | None = None
    count: int = 0
    parent: str | None = None
    lessons: tuple[str, ...] = ()
    written: set[str] = field(default_factory=set)
    """Programs of the last conversation."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def open_session(self) -> Session | None:
        return self.session if self.session is not None and self.session.is_open else None


class ModelCoder:
    """Goes on with a task's open conversation, else begins one; proposes what the model submits."""

    def __init__(
        self,
        bridge: AsyncBridge,
        workbench: Workbench,
        lessons: Lessons = no_lessons,
        strategies: Mapping[str, str] | None = None,
        tool_caps: ToolCaps = USUAL_TOOL_CAPS,
    ) -> None:
        self._bridge = bridge
        self._workbench = workbench
        self._lessons = lessons
        self._strategies = {} if strategies is None else strategies
        self._tool_caps = tool_caps
        self._threads: dict[str, _Thread] = {}

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        improve: Attempt | None = None,
    ) -> Sequence[Proposal]:
        """Propose up to `count` programs; none when the model ends the conversation.

        An open conversation is told its verdicts first, and goes on. A new one starts from
        `improve`, or asks for an idea.
        """
        thread = self._threads.setdefault(task.fingerprint, _Thread())
        with thread.lock:
            session = thread.open_session
            if session is None:
                if _is_at_floor(task, device, history):
                    return ()
                session = self._begun(thread, task, device, history, improve)
            session.toolbox.history = tuple(history)
            advance = session.advance(verdicts_on(session, history), news_of(history))
            return _proposals(advance, thread, count)

    def owns(self, task: Task, history: Sequence[Attempt], program_id: str) -> bool:
        """Say whether a program is its own author's to mend: for two failures in a row it is."""
        thread = self._threads.get(task.fingerprint, _Thread())
        if thread.open_session is None or program_id not in thread.written:
            return False
        if program_id in thread.open_session.submitted:
            return True
        verdicts = [a.evaluation for a in history if a.proposal.program.id in thread.written]
        return any(evaluation.is_correct for evaluation in verdicts[-_OWN_FAILURES:]) or (
            len(verdicts) < _OWN_FAILURES
        )

    def awaits(self, task: Task) -> frozenset[str]:
        """Return the programs of a task whose verdicts the model was not told yet."""
        session = self._threads.get(task.fingerprint, _Thread()).open_session
        return session.submitted if session is not None else frozenset()

    def conclude(self, task: Task, history: Sequence[Attempt]) -> str:
        """Tell the last verdicts, and return what the model says is worth knowing."""
        session = self._threads[task.fingerprint].open_session
        if session is None:
            return ""
        session.toolbox.history = tuple(history)
        return session.conclude(verdicts_on(session, history))

    def _begun(
        self,
        thread: _Thread,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        improve: Attempt | None,
    ) -> Session:
        thread.count += 1
        thread.written = set()
        brief = Brief(
            improve=improve,
            strategy=self._strategies.get(task.fingerprint, ""),
            lessons=tuple(self._lessons(task, device))[:_MOST_LESSONS],
            siblings=tuple(self._workbench.siblings(task))[:_MOST_SIBLINGS],
        )
        thread.parent = improve.proposal.program.id if improve is not None else None
        thread.lessons = tuple(lesson.id for lesson in brief.lessons)
        thread.session = Session(
            bridge=self._bridge,
            toolbox=Toolbox(
                task=task,
                workbench=self._workbench,
                caps=self._tool_caps,
                pages={"mlx": mlx_text(task.graph), "graph": describe(task.graph)},
                history=tuple(history),
            ),
            prompt=coder_prompt(task, device, history, brief),
            purpose=Purpose(role="coder", task=task.fingerprint, conversation=thread.count),
        )
        return thread.session


def _proposals(advance: Advance, thread: _Thread, count: int) -> list[Proposal]:
    drafts = advance.submitted[:count]
    thread.written |= {draft.program.id for draft in drafts}
    return [
        Proposal(
            program=draft.program,
            author=advance.model,
            idea=draft.draft.idea,
            parent=thread.parent if thread.parent != draft.program.id else None,
            dollars=advance.cost.dollars / len(drafts),
            seconds=advance.seconds / len(drafts),
            lessons=thread.lessons,
        )
        for draft in drafts
    ]


def verdicts_on(session: Session, history: Sequence[Attempt]) -> dict[str, str]:
    """Say what became of the programs that a conversation waits for."""
    return {
        a.proposal.program.id: verdict_report(a.evaluation, a.proposal.program)
        for a in history
        if a.proposal.program.id in session.submitted
    }


def news_of(history: Sequence[Attempt]) -> str:
    """Say which program leads by now."""
    best = best_of(history)
    if best is None:
        return ""
    program, speed = best.proposal.program.id[:12], speed_of(best.evaluation, only_strongest=True)
    return f"The best program is `{program}` by {best.proposal.author}: {speed or 'correct'}."


def coder_prompt(
    task: Task, device: DeviceInfo, history: Sequence[Attempt], brief: Brief
) -> Prompt:
    """Render what a coder is told when a conversation begins."""
    best = brief.improve or best_of(history)
    floor = floor_of(task.graph, device)
    request = render(
        "write",
        {
            "improve": brief.improve is not None,
            "strategy": brief.strategy,
            "lessons": [lesson.sentence[:_LONGEST_LESSON] for lesson in brief.lessons],
            "siblings": [
                {"name": s.name, "task": s.task[:_LONGEST_IDEA], "idea": s.idea[:_LONGEST_IDEA]}
                for s in brief.siblings
            ],
            "champion": None if best is None else shown(best, Interface(task)),
            "floor": floor,
            "from_floor": _times_floor(best, task, device),
            "attempts": [
                {
                    "id": a.proposal.program.id[:12],
                    "idea": a.proposal.idea[:_LONGEST_IDEA],
                    "outcome": outcome(a.evaluation)[:_LONGEST_IDEA],
                }
                for a in reversed(history[-_MOST_ATTEMPTS:])
            ],
        },
    )
    prompt = build(
        "coder",
        system={"device": device, "examples": example_texts()},
        context=task_text(task, device),
        request=request,
        templates="rules task write",
    )
    slowest_s = max((a.evaluation.duration_s for a in history), default=0.0)
    return prompt.model_copy(
        update={"tools": tools(), "keeps_cache_for_an_hour": slowest_s > _SLOW_EVALUATION_S}
    )


def _times_floor(best: Attempt | None, task: Task, device: DeviceInfo) -> str:
    floor = floor_of(task.graph, device)
    taken_us = None if best is None else best.evaluation.measured_us or best.evaluation.predicted_us
    return "" if floor is None or taken_us is None else f"{taken_us / floor.time_us:.2f}"


def _is_at_floor(task: Task, device: DeviceInfo, history: Sequence[Attempt]) -> bool:
    floor, best = floor_of(task.graph, device), best_of(history)
    return floor is not None and best is not None and floor.is_reached_by(best.evaluation)


def best_of(history: Sequence[Attempt]) -> Attempt | None:
    """Return the correct attempt that is fastest as far as is known, the first among equals."""
    correct = [a for a in history if a.evaluation.is_correct]
    return min(correct, key=_slowness, default=None)


def _slowness(attempt: Attempt) -> tuple[float, float]:
    speedups = [s.ratio for s in attempt.evaluation.speedups if s.kind == "measured"]
    predicted = attempt.evaluation.predicted_us
    return -min(speedups, default=0.0), float("inf") if predicted is None else predicted
