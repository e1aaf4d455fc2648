"""The memory of calls that agents ask of whoever keeps a campaign: written before and after."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pydantic import Field

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import (
    Prompt,
    Purpose,
    Reply,
    Stop,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from kernelwright.metal.diagnostic import Record

ABANDONED = "abandoned"
"""The fault of a call that was given up in flight: nobody knows what the server did."""


class Call(Record):
    """A request on the point of being sent."""

    id: str
    request_hash: str
    purpose: Purpose
    model: str
    """`provider:model`."""
    prompt: Prompt
    shape: str
    """Name of the record that the reply has to be; empty in a conversation with tools."""
    worst: Cost
    """What it may cost at most; counted when the outcome is never learnt."""
    stands_in: str = ""
    """Why another model, which was asked before, gave nothing; empty for the first choice."""


class Outcome(Record):
    """What became of a call: a reply, or the fault that ended it."""

    reply: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    """For people who read the conversation."""
    native: str = ""
    native_format: str = ""
    stop: Stop = "done"
    usage: Usage = Usage()
    """As billed; none where the reply never came whole."""
    cost: Cost = Cost()
    latency_s: float = 0.0
    is_replayed: bool = Field(default=False, exclude=True)
    """True where a recorded reply was given again, and no model was asked."""
    fault: str = ""
    """One sentence; empty for a complete reply."""

    @classmethod
    def of(cls, reply: Reply, cost: Cost) -> "Outcome":
        """Return the outcome of a call that was answered."""
        return cls(
            reply=reply.text,
            calls=reply.calls,
            reasoning=reply.reasoning,
            native=reply.native,
            native_format=reply.native_format,
            stop=reply.stop,
            usage=reply.usage,
            cost=cost,
        )


class RecordedCall(Record):
    """A call with its outcome, None while it is in flight or after a kill."""

    call: Call
    outcome: Outcome | None = None
    place: str = ""
    """Where the reply can still be fetched, for a call by the batch; see `Receipt`."""
    answers: Mapping[int, ToolResult] = Field(default_factory=dict)
    """What tool calls of the reply were answered with, by their place in it, as far as known."""

    flaw: str = ""
    """Why a whole reply is of no use; empty where it is of use, or nobody has read it."""

    @property
    def cost(self) -> Cost:
        """What the call took, or its worst case where nobody learnt it."""
        taken = self.call.worst if self.outcome is None else self.outcome.cost
        return taken if self.bill_is_known else taken.as_assumed

    @property
    def latency_s(self) -> float:
        """How long the call took, as far as anybody learnt it."""
        return 0.0 if self.outcome is None else self.outcome.latency_s

    @property
    def has_reply(self) -> bool:
        """True when a complete reply is on record."""
        return self.outcome is not None and not self.outcome.fault

    @property
    def is_awaited(self) -> bool:
        """True when nobody has heard the reply, which the provider keeps."""
        is_open = self.outcome is None or self.outcome.fault == ABANDONED
        return is_open and bool(self.place)

    @property
    def bill_is_known(self) -> bool:
        """True where the reply came whole, an empty one too."""
        return self.has_reply or (self.outcome is not None and self.outcome.usage.total_tokens > 0)

    @property
    def reply(self) -> Reply:
        """The reply on record; ask `has_reply` first."""
        if self.outcome is None or self.outcome.fault:
            raise ValueError(f"call {self.call.id} has no reply on record")
        return Reply(
            text=self.outcome.reply,
            calls=self.outcome.calls,
            reasoning=self.outcome.reasoning,
            native=self.outcome.native,
            native_format=self.outcome.native_format,
            stop=self.outcome.stop,
            usage=self.outcome.usage,
            model=self.call.model,
        )


def turns_of(calls: Iterable[RecordedCall], purpose: Purpose) -> tuple[Turn, ...]:
    """Return the longest history that calls for a purpose were sent with, and the last reply.

    Of several replies to one request the last counts: another model answered it.
    """
    longest: tuple[Turn, ...] = ()
    for recorded in calls:
        if recorded.call.purpose != purpose:
            continue
        turns = recorded.call.prompt.turns
        if recorded.has_reply:
            turns = (*turns, recorded.reply.turn)
        longest = turns if len(turns) >= len(longest) else longest
    return longest


class Ledger(Protocol):
    """Keeps every call of one campaign; `begin` and `finish` are durable when they return."""

    def begin(self, call: Call) -> None:
        """Record a call before anything is sent."""

    def keep_place(self, call_id: str, place: str) -> None:
        """Record where the reply to a call that takes hours can be fetched."""

    def finish(self, call_id: str, outcome: Outcome) -> None:
        """Record how the call ended, before anybody acts on the reply."""

    def keep_flaw(self, call_id: str, flaw: str) -> None:
        """Record why a whole reply is of no use: a cause, and after a colon what is wrong."""

    def keep_answer(self, call_id: str, place: int, answer: ToolResult) -> None:
        """Record what a tool call of the reply, by its place, was answered with."""

    def calls(self) -> Sequence[RecordedCall]:
        """Return all calls of the campaign in the order in which they began."""


class MemoryLedger:
    """A ledger that lives as long as the process."""

    def __init__(self, calls: Sequence[RecordedCall] = ()) -> None:
        self._calls = {recorded.call.id: recorded for recorded in calls}

    def begin(self, call: Call) -> None:
        """Keep a call that is about to be sent."""
        self._calls[call.id] = RecordedCall(call=call)

    def keep_place(self, call_id: str, place: str) -> None:
        """Keep where its reply can be fetched."""
        self._calls[call_id] = self._calls[call_id].model_copy(update={"place": place})

    def finish(self, call_id: str, outcome: Outcome) -> None:
        """Keep how it ended."""
        self._calls[call_id] = self._calls[call_id].model_copy(update={"outcome": outcome})

    def keep_flaw(self, call_id: str, flaw: str) -> None:
        """Keep why the reply is of no use."""
        self._calls[call_id] = self._calls[call_id].model_copy(update={"flaw": flaw})

    def keep_answer(self, call_id: str, place: int, answer: ToolResult) -> None:
        """Keep what a tool call of the reply was answered with."""
        known = self._calls[call_id]
        answers = {**known.answers, place: answer}
        self._calls[call_id] = known.model_copy(update={"answers": answers})

    def calls(self) -> tuple[RecordedCall, ...]:
        """Return all calls so far."""
        return tuple(self._calls.values())
