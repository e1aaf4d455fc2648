"""One conversation about one task: proposals, verdicts and repairs, to its end in order."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.agents.cap_text import cap_reached
from kernelwright.agents.message import (
    COLD_CACHE_S,
    Prompt,
    Purpose,
    TimedReply,
    ToolCall,
    ToolResult,
    Turn,
)
from kernelwright.agents.providers.fault import OutageError, ReplyError
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.agents.session.parse import tool_calls_in
from kernelwright.agents.session.tools.draft_book import NamedDraft
from kernelwright.agents.session.tools.toolbox import EVALUATING, Ran, Toolbox
from kernelwright.agents.session.transcript import Ending
from kernelwright.errors import BudgetError
from kernelwright.plural import counted

_NUDGE = (
    "Nothing was called. Use a tool, or write one JSON object in a fence: "
    '{"tool": "check", "arguments": {…}}; call `done` if nothing is left to try.'
)
_NO_JSON = (
    "What looks like a call cannot be read: expected one whole JSON object in a fence, with line "
    'breaks in texts as \\n and quotes as \\", found none.'
)
_CUT_OFF = "Your reply was cut off at its limit: say less at a time, and edit instead of rewriting."
_CLOSING = (
    "The search of this task ends here. Call `done` and say in at most two sentences what a "
    "colleague should know who meets such a task again: what worked, what did not, and why."
)
_NOT_JUDGED = "It was not judged: the search had no room for it."
_NOT_DONE = "Not carried out: what was submitted beside it was refused."
_TOO_LATE = "This was not carried out: the search of this task had ended, and only `done` was open."


@dataclass(frozen=True)
class Advance:
    """What a conversation brought until it has to wait for verdicts, or to its end."""

    submitted: tuple[NamedDraft, ...]
    model: str


@dataclass
class _Waiting:
    """The answers to a turn's calls, some of them open until verdicts are there."""

    ran: list[Ran]
    is_text: bool


@dataclass
class Session:
    """Goes on from where it stood, whenever it is told how its programs fared."""

    bridge: AsyncBridge
    toolbox: Toolbox
    prompt: Prompt
    purpose: Purpose
    ended: str = ""
    """Why the conversation is over; empty while it is open."""
    obstacle: str = ""
    """What keeps it from going on for now: a cap, or a service that is away."""
    cap: str = ""
    """Which cap on models kept it from going on; empty where none did."""
    was_held: bool = False
    """True once a request was sent: a cap may keep a conversation from its first one."""
    model: str = ""
    submitted_for_it: str = ""
    """The draft that it was kept from submitting, or forgot, and that is proposed all the same."""
    _because: str | None = None
    """Why the model ends it, which may wait for verdicts; None where it does not."""
    _heard_s: float | None = None
    """When the last reply came."""
    _waiting: _Waiting | None = None
    _idle: int = 0
    _turns: int = 0
    _recorded: Sequence[Turn] = field(default=())

    def __post_init__(self) -> None:
        self._recorded = self.bridge.recorded_turns(self.purpose)

    @property
    def is_open(self) -> bool:
        """True while the model may be asked to go on."""
        return not self.ended

    @property
    def submitted(self) -> frozenset[str]:
        """Ids of the programs whose verdicts the conversation waits for."""
        ran = self._waiting.ran if self._waiting is not None else []
        return frozenset(r.submitted.program.id for r in ran if r.submitted is not None)

    def advance(self, verdicts: Mapping[str, str], news: str = "") -> Advance:
        """Tell the verdicts on what was submitted, by program, and let the model go on.

        Where something else than its own decision ends it, what it has left unsubmitted is
        submitted.

        Raises:
            BudgetError: the next call could exceed a cap; the conversation stays as it is.
            OutageError: the service is away; the conversation can go on later.
            ModelError: the model cannot be used at all.
        """
        self._tell(verdicts, news)
        try:
            submitted = self._next_submission()
        except (BudgetError, OutageError) as e:
            self.meet(e)
            if not (submitted := self.left()):
                raise
        if self.ended and self._because is None:
            submitted = self.left()
        return Advance(submitted, self.model)

    def meet(self, error: BudgetError | OutageError) -> None:
        """Note what keeps the conversation from going on for now."""
        self.obstacle = str(error)
        if isinstance(error, BudgetError):
            self.cap = str(error).rstrip(".")

    def left(self, *, judges: bool = True) -> tuple[NamedDraft, ...]:
        """Submit the fastest right draft if it leads the task and the model has not done it.

        Args:
            judges: whether drafts that an earlier process checked are judged again.
        """
        draft = self.toolbox.unsubmitted(judges=judges)
        if draft is None:
            return ()
        self.toolbox.submit(draft)
        self.submitted_for_it = draft.name
        return (draft,)

    def _next_submission(self) -> tuple[NamedDraft, ...]:
        """Let the model go on until it submits something, or to the conversation's end."""
        while not self._is_done():
            if self._turns >= self.toolbox.caps.turns:
                most = counted(self.toolbox.caps.turns, "turn")
                self.ended = cap_reached(most, of="conversation")
                break
            try:
                timed = self._asked()
            except ReplyError as e:
                self.ended = str(e)
                break
            self._turns += 1
            self.was_held, self.model = True, timed.reply.model
            if submitted := self._answered(timed):
                return submitted
        return ()

    def ending(self, reason: str = "", *, is_left: bool = False) -> Ending:
        """Return why the conversation is over, or what keeps it from going on.

        Args:
            reason: why its task is left, where nothing of its own ended the conversation.
            is_left: True where this search asks nothing more.
        """
        turns = self.prompt.turns
        self._is_done()
        reason = (self.ended or self.obstacle or reason).rstrip(".")
        if self.submitted_for_it:
            reason += f"; {self.submitted_for_it}, right and never submitted, is proposed"
        return Ending(
            purpose=self.purpose,
            model=self.model or self.purpose.model,
            reason=reason,
            unread=turns[-1] if turns and turns[-1].speaker == "user" else None,
            turns=len(turns),
            is_final=bool(self.ended),
            is_left=is_left,
        )

    def conclude(self, verdicts: Mapping[str, str], news: str = "") -> str:
        """Tell the last verdicts, end the conversation, return what the model learnt.

        Raises:
            BudgetError: the next call could exceed a cap.
            OutageError: the service is away.
        """
        if self.ended:
            return self.ended
        closing = _CLOSING if self._because is None else ""
        self._tell(verdicts, "\n".join(filter(None, (news, closing))))
        if self._is_done():
            return self._because or ""
        try:
            reply = self._asked().reply
        except ReplyError as e:
            self.ended = str(e)
            return ""
        self.prompt = self.prompt.followed_by(reply.turn)
        calls = reply.calls or tool_calls_in(reply.text)
        ran = [self._run_late(call) for call in calls]
        if ran:
            self._say([r.result for r in ran], "", is_text=not reply.calls)
        reasons = [r.done for r in ran if r.done]
        self.ended = "its last verdict was told"
        return " ".join(reasons) or reply.text.strip()[:500]

    def _run_late(self, call: ToolCall) -> Ran:
        """Take what a model learnt; nothing else is carried out any more."""
        if call.name == "done":
            return self.toolbox.run(call)
        return Ran(ToolResult(call_id=call.id, text=_TOO_LATE, is_error=True), is_useful=False)

    def _is_done(self) -> bool:
        """End the conversation where the model did, and waits for no verdict."""
        if self._because is not None and self._waiting is None:
            self.ended = f"the model is done: {self._because.strip() or 'nothing is left to try'}"
        return bool(self.ended)

    def _asked(self) -> TimedReply:
        """Ask for the next turn; the cache is kept for an hour once a wait was too long for it."""
        if self._heard_s is not None and time.monotonic() - self._heard_s > COLD_CACHE_S:
            self.prompt = self.prompt.model_copy(update={"keeps_cache_for_an_hour": True})
        timed = self.bridge.turn(self.prompt, self.purpose)
        self._heard_s = time.monotonic()
        return timed

    def tell(self, verdicts: Mapping[str, str]) -> None:
        """Note the verdicts on what was submitted, where the model is asked nothing more."""
        self._tell(verdicts, "")

    def _tell(self, verdicts: Mapping[str, str], news: str) -> None:
        if self._waiting is None:
            return
        results = [
            ran.result
            if ran.submitted is None
            else ran.result.model_copy(
                update={"text": verdicts.get(ran.submitted.program.id, _NOT_JUDGED)}
            )
            for ran in self._waiting.ran
        ]
        is_text, self._waiting = self._waiting.is_text, None
        if (recorded := self._recorded_turn()) is not None:
            # What was told then is told again, even where times differ today.
            self.prompt = self.prompt.followed_by(recorded)
        else:
            self._say(results, news, is_text=is_text)

    def _answered(self, timed: TimedReply) -> tuple[NamedDraft, ...]:
        """Run what a reply calls; return what it submits, whose verdicts it waits for."""
        reply = timed.reply
        self.prompt = self.prompt.followed_by(reply.turn)
        calls, is_text = reply.calls, False
        if not calls:
            calls, is_text = tool_calls_in(reply.text), True
        ran = self._run(calls, timed)
        if any(c.name == "submit" and r.result.is_error for c, r in zip(calls, ran, strict=True)):
            # It was done in the belief that it had submitted: it learns first that it has not.
            ran = [r if r.done is None else _not_done(r) for r in ran]
        reasons = [r.done for r in ran if r.done is not None]
        submitted = {r.submitted.name: r.submitted for r in ran if r.submitted is not None}
        self._because = next(iter(reasons), None)
        self._idle = 0 if any(r.is_useful for r in ran) else self._idle + 1
        if submitted:
            self._waiting = _Waiting(ran, is_text)
            return tuple(submitted.values())
        remark = ""
        if not ran:
            timed.keep_flaw("no tool called")
        if reply.stop == "truncated":
            remark = _CUT_OFF
        elif not ran and '"tool"' in reply.text:
            remark = _NO_JSON
        self._say([r.result for r in ran], remark if ran else remark or _NUDGE, is_text=is_text)
        if self._is_done():
            return ()
        if self._idle >= self.toolbox.caps.idle_turns:
            self.ended = f"{self._idle} turns in a row brought no tool call that can be carried out"
        return ()

    def _run(self, calls: Sequence[ToolCall], timed: TimedReply) -> list[Ran]:
        """Carry calls out but those whose answers are on record, and record each answer."""
        turn = self._recorded_turn()
        known: Sequence[ToolResult | None] = () if turn is None else turn.results or turn.told
        if len(known) != len(calls):
            known = [timed.answers.get(place) for place in range(len(calls))]
        ran: list[Ran] = []
        for place, (call, answer) in enumerate(zip(calls, known, strict=True)):
            ran.append(self.toolbox.run(call, answer))
            if answer is None and call.name in EVALUATING:
                timed.keep_answer(place, ran[-1].result)
        return ran

    def _recorded_turn(self) -> Turn | None:
        """Return what was said next, where the record has the same history up to here."""
        place = len(self.prompt.turns)
        if place >= len(self._recorded) or self._recorded[place].speaker != "user":
            return None
        same = [_said(t) for t in self._recorded[:place]] == [_said(t) for t in self.prompt.turns]
        return self._recorded[place] if same else None

    def _say(self, results: Sequence[ToolResult], text: str, *, is_text: bool) -> None:
        if is_text:
            # The model wrote its calls as text: they are answered as text.
            told = [result.text for result in results]
            said = "\n\n".join(filter(None, (*told, text))) or _NUDGE
            turn = Turn(speaker="user", text=said, told=tuple(results))
        else:
            turn = Turn(speaker="user", results=tuple(results), text=text)
        self.prompt = self.prompt.followed_by(turn)


def _said(turn: Turn) -> tuple[object, ...]:
    return turn.speaker, turn.text, turn.calls, turn.results


def _not_done(ran: Ran) -> Ran:
    told = ran.result.model_copy(update={"text": _NOT_DONE, "is_error": True})
    return Ran(told, is_useful=False)
