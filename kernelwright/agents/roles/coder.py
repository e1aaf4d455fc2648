"""A coder that holds a conversation with a language model, in which it tries what it writes."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from kernelwright.agents.message import Purpose, Spent
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.providers.fault import OutageError
from kernelwright.agents.roles.lesson import Lesson
from kernelwright.agents.roles.text.coder_prompt import (
    NEW_IDEA,
    Brief,
    Start,
    coder_prompt,
    is_at_floor,
    news_of,
    next_step,
    shown_in,
    standing,
)
from kernelwright.agents.roles.text.feedback import is_gated
from kernelwright.agents.roles.text.graph_text import graph_page, mlx_page
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.agents.session.session import Advance, Session
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.agents.session.tools.report import verdict_report
from kernelwright.agents.session.tools.toolbox import Toolbox
from kernelwright.agents.session.transcript import Ending
from kernelwright.agents.session.workbench import Workbench
from kernelwright.errors import BudgetError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo

Lessons = Callable[[Task, DeviceInfo], Sequence[Lesson]]
"""Gives the lessons that fit a task and a device, most helpful first."""
_MOST_LESSONS = 8
_MOST_SIBLINGS = 3
_OWN_FAILURES = 2
USUAL_TOOL_CAPS = ToolCaps()


OnEnd = Callable[[Ending], None]


def no_lessons(task: Task, device: DeviceInfo) -> Sequence[Lesson]:
    """Return nothing: nothing has been learnt."""
    return ()


@dataclass(frozen=True)
class CoderOptions:
    """How conversations are held; what is switched off serves to weigh what it brings."""

    tool_caps: ToolCaps = USUAL_TOOL_CAPS
    tool_names: tuple[str, ...] = ()
    """The tools that a model is given; all where none is named."""
    shows_siblings: bool = True


USUAL_OPTIONS = CoderOptions()


@dataclass(frozen=True)
class Conclusion:
    """What a model says is worth knowing once it has heard its last verdicts."""

    model: str
    text: str
    """Empty where it was not reached."""
    spent: Spent
    """What telling it took."""


@dataclass
class _Thread:
    """One model's conversations about one task, one after another; the last may be open."""

    session: Session | None = None
    parent: str | None = None
    lessons: tuple[str, ...] = ()
    written: set[str] = field(default_factory=set)
    """Programs of the last conversation."""
    known: set[str] = field(default_factory=set)
    """Programs whose texts the model has read in it, or written."""

    @property
    def open_session(self) -> Session | None:
        return self.session if self.session is not None and self.session.is_open else None


@dataclass
class _TaskTalk:
    """All that models say about one task, one of them at a time."""

    count: int = 0
    threads: dict[str, _Thread] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def thread_of(self, model: str) -> _Thread:
        """Return where a model goes on: in its own open conversation, or as another's stand-in."""
        own = self.threads.get(model, _Thread())
        joined = (t for t in self.open_threads() if t.session and t.session.model == model)
        return own if own.open_session is not None else next(joined, own)

    def open_threads(self) -> list[_Thread]:
        return [thread for thread in self.threads.values() if thread.open_session is not None]


class ModelCoder:
    """Goes on with a model's open conversation about a task, else begins one.

    It proposes what the model submits.
    """

    def __init__(
        self,
        bridge: AsyncBridge,
        workbench: Workbench,
        lessons: Lessons = no_lessons,
        strategies: Mapping[str, str] | None = None,
        options: CoderOptions = USUAL_OPTIONS,
        on_end: OnEnd = lambda ending: None,
    ) -> None:
        """Take whom to talk to, and who is told why a conversation is over."""
        self._bridge = bridge
        self._workbench = workbench
        self._lessons = lessons
        self._strategies = {} if strategies is None else strategies
        self._options = options
        self._on_end = on_end
        self._talks: dict[str, _TaskTalk] = {}

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        start: Start = NEW_IDEA,
    ) -> Sequence[Proposal]:
        """Propose up to `count` programs; none when the model ends the conversation.

        An open conversation is told its verdicts first, and goes on: to mend its own failure, else
        as `start` says. A new one begins where `start` says.
        """
        talk = self._talks.setdefault(task.fingerprint, _TaskTalk())
        with talk.lock:
            if is_at_floor(task, device, history):
                return ()
            talk.threads.setdefault(start.model, _Thread())
            thread = talk.thread_of(start.model)
            session, asked = thread.open_session, ""
            if session is None:
                talk.count += 1
                session = self._begun(thread, talk.count, task, device, history, start)
            elif not _has_failed(session, history):
                asked = next_step(task, start, thread.known)
                thread.known |= shown_in((), start)
                thread.parent = _parent(start)
            return _proposals(self._advanced(session, task, history, asked), thread, count)

    def owns(self, task: Task, history: Sequence[Attempt], program_id: str) -> bool:
        """Say whether a program is its own author's to mend: for two failures in a row it is."""
        for thread in self._open_threads(task):
            if program_id in thread.written:
                return _owns(thread, history, program_id)
        return False

    def awaits(self, task: Task, model: str = "") -> frozenset[str]:
        """Return the programs of a task whose verdicts a model, or any, was not told yet."""
        talk = self._talks.get(task.fingerprint, _TaskTalk())
        threads = [talk.thread_of(model)] if model else talk.open_threads()
        sessions = [thread.open_session for thread in threads]
        return frozenset(p for session in sessions if session for p in session.submitted)

    def speaker(self, task: Task, model: str) -> str:
        """Return who answered last where a model was asked: itself, or another in its stead."""
        talk = self._talks.get(task.fingerprint, _TaskTalk())
        session = talk.thread_of(model).session
        return session.model if session is not None and session.model else model

    def conclude(self, task: Task, history: Sequence[Attempt]) -> Sequence[Conclusion]:
        """Tell the last verdicts, and return what the models say is worth knowing."""
        said: list[Conclusion] = []
        for thread in self._open_threads(task):
            session = thread.open_session
            if session is not None and (session.submitted or not said):
                before, text = self.spent(task), ""
                # A cap or an outage, which the end of the conversation tells.
                with suppress(BudgetError, OutageError):
                    text = self._concluded(session, task, history)
                said.append(Conclusion(session.model, text, self.spent(task).since(before)))
        return said

    def cap(self, task: Task) -> str:
        """Return which cap kept a conversation about a task from going on; empty where none did."""
        threads = self._talks.get(task.fingerprint, _TaskTalk()).threads.values()
        return next((t.session.cap for t in threads if t.session and t.session.cap), "")

    def spent(self, task: Task) -> Spent:
        """Return what all replies about a task took so far, whoever asked."""
        return self._bridge.spent(task.fingerprint)

    def left(self, task: Task, history: Sequence[Attempt]) -> Sequence[Proposal]:
        """Return the right drafts that lead a task and that no model has submitted.

        It waits for nobody: a model may be at work.
        """
        found: list[Proposal] = []
        for thread in self._open_threads(task):
            if (session := thread.open_session) is not None:
                session.toolbox.history = tuple(history)
                left = Advance(session.left(judges=False), session.model)
                found += _proposals(left, thread, len(left.submitted))
        return found

    def leave(self, task: Task, history: Sequence[Attempt], reason: str) -> None:
        """Say of conversations that are open why they go on no more in this search."""
        for thread in self._open_threads(task):
            if (session := thread.open_session) is not None and session.was_held:
                session.tell(verdicts_on(session, history))
                self._on_end(session.ending(reason, is_left=True))

    def _advanced(
        self, session: Session, task: Task, history: Sequence[Attempt], asked: str
    ) -> Advance:
        session.toolbox.history = tuple(history)
        news = "\n\n".join(filter(None, (news_of(task, history), asked)))
        with self._ending(session):
            return session.advance(verdicts_on(session, history), news)

    def _concluded(self, session: Session, task: Task, history: Sequence[Attempt]) -> str:
        session.toolbox.history = tuple(history)
        with self._ending(session):
            return session.conclude(verdicts_on(session, history), news_of(task, history))

    @contextmanager
    def _ending(self, session: Session) -> Iterator[None]:
        """Tell why a conversation is over, or cannot go on, if it is."""
        session.obstacle = ""
        try:
            yield
        except (BudgetError, OutageError) as e:
            session.meet(e)
            session.was_held |= isinstance(e, OutageError)
            if session.was_held:
                self._on_end(session.ending())
            raise
        if session.ended or session.obstacle:
            self._on_end(session.ending())

    def _open_threads(self, task: Task) -> list[_Thread]:
        return self._talks.get(task.fingerprint, _TaskTalk()).open_threads()

    def _begun(
        self,
        thread: _Thread,
        number: int,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        start: Start,
    ) -> Session:
        thread.written, thread.known = set(), shown_in(history, start)
        options = self._options
        siblings = self._workbench.siblings(task) if options.shows_siblings else ()
        brief = Brief(
            start=start,
            strategy=self._strategies.get(task.fingerprint, ""),
            lessons=tuple(self._lessons(task, device))[:_MOST_LESSONS],
            siblings=tuple(siblings)[:_MOST_SIBLINGS],
            tool_names=options.tool_names,
        )
        thread.parent = _parent(start)
        thread.lessons = tuple(lesson.id for lesson in brief.lessons)
        purpose = Purpose(
            role="coder", task=task.fingerprint, conversation=number, model=start.model
        )
        thread.session = Session(
            bridge=self._bridge,
            toolbox=Toolbox(
                task=task,
                workbench=self._workbench,
                caps=options.tool_caps,
                names=options.tool_names,
                pages={"mlx": mlx_page(task.graph, device), "graph": graph_page(task)},
                history=tuple(history),
            ),
            prompt=coder_prompt(task, device, history, brief),
            purpose=purpose,
        )
        return thread.session


def _owns(thread: _Thread, history: Sequence[Attempt], program_id: str) -> bool:
    if thread.open_session is not None and program_id in thread.open_session.submitted:
        return True
    verdicts = [a.evaluation for a in history if a.proposal.program.id in thread.written]
    return any(evaluation.is_correct for evaluation in verdicts[-_OWN_FAILURES:]) or (
        len(verdicts) < _OWN_FAILURES
    )


def _parent(start: Start) -> str | None:
    return start.improve.proposal.program.id if start.improve is not None else None


def _has_failed(session: Session, history: Sequence[Attempt]) -> bool:
    """Say whether a program that a conversation waits for was found wrong."""
    waited = [a for a in history if a.proposal.program.id in session.submitted]
    return any(is_gated(a.evaluation) or not a.evaluation.is_correct for a in waited)


def _proposals(advance: Advance, thread: _Thread, count: int) -> list[Proposal]:
    drafts = advance.submitted[:count]
    thread.written |= {draft.program.id for draft in drafts}
    thread.known |= thread.written
    return [
        Proposal(
            program=draft.program,
            author=advance.model,
            idea=" ".join(filter(None, (draft.draft.idea, draft.note))),
            parent=thread.parent if thread.parent != draft.program.id else None,
            lessons=thread.lessons,
        )
        for draft in drafts
    ]


def verdicts_on(session: Session, history: Sequence[Attempt]) -> dict[str, str]:
    """Say what became of the programs that a conversation waits for."""
    return {
        a.proposal.program.id: "\n".join(
            filter(None, (verdict_report(a.evaluation, a.proposal.program), standing(a, history)))
        )
        for a in history
        if a.proposal.program.id in session.submitted
    }
