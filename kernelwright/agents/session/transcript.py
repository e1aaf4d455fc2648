"""Conversations as they were held, from the ledger's calls."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, takewhile

from pydantic import Field

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose, ToolCall, Turn, Usage
from kernelwright.agents.session.ledger import RecordedCall, turns_of
from kernelwright.agents.session.parse import tool_calls_in, without_calls
from kernelwright.metal.diagnostic import Record


class Ending(Record):
    """Why a conversation goes on no more."""

    purpose: Purpose
    model: str = ""
    reason: str
    unread: Turn | None = None
    """What would have been said to the model next."""
    turns: int
    """How many there were by then, the unread one among them."""
    is_final: bool = True
    """False where the conversation may yet go on: a cap was reached, or the service is away."""
    is_left: bool = False
    """True where it does not in this search, which has left the task."""


class Handover(Record):
    """Another model goes on with a conversation, and why."""

    turn: int
    """The first that it said, from 0."""
    model: str
    reason: str


class Transcript(Record):
    """One conversation with tools, or one question, from its opening to its last turn."""

    purpose: Purpose
    number: int
    """Its place among the conversations about the task, from 1; 0 for a question."""
    model: str
    """Who answered, in turn, where one stepped in for another."""
    opening: Prompt
    turns: tuple[Turn, ...]
    usage: Usage
    """Of whole replies alone, as `known`."""
    known: Cost
    cost: Cost
    """At most: a call whose reply never came whole counts at its worst, as caps count it."""
    handovers: tuple[Handover, ...] = ()
    lost: Mapping[str, int] = Field(default_factory=dict)
    """How many calls brought no reply, by what they brought instead."""
    ended: str = ""
    """Why it went on no more; empty where that is not known, as after a kill."""

    @property
    def cached_share(self) -> float:
        """Share of the tokens read that the provider had in its cache."""
        read = self.usage.prompt_tokens
        return self.usage.cache_read_tokens / read if read else 0.0


def transcripts(
    calls: Iterable[RecordedCall], endings: Iterable[Ending] = (), before: int = 0
) -> tuple[Transcript, ...]:
    """Return the conversations and questions that calls belong to, as they began.

    Conversations are numbered from one above `before`, how many there were about the task before.
    A later run that did not begin as an earlier one did holds a conversation of its own. Of several
    endings of one conversation the last counts: it may have gone on after an outage.
    """
    found: dict[tuple[Purpose, str], list[RecordedCall]] = {}
    for recorded in calls:
        key = recorded.call.purpose, _beginning(recorded.call.prompt)
        found.setdefault(key, []).append(recorded)
    latest = {key[0]: key for key in found}
    ended = {latest.get(ending.purpose): ending for ending in endings}
    talks: list[Transcript] = []
    for key, held in found.items():
        is_question = not key[0].conversation
        before += not is_question
        talks.append(_transcript(0 if is_question else before, held, ended.get(key)))
    return tuple(talks)


def _beginning(prompt: Prompt) -> str:
    return "\n\n".join((prompt.system, prompt.context, prompt.request))


def _transcript(number: int, calls: list[RecordedCall], ending: Ending | None) -> Transcript:
    purpose = calls[0].call.purpose
    usages = [c.outcome.usage for c in calls if c.outcome is not None]
    total = Usage(
        **{
            name: sum(getattr(usage, name) for usage in usages)
            for name in Usage.model_fields
            if name != "is_estimate"
        }
    )
    said = [tuple(_said(recorded, is_last=recorded is calls[-1])) for recorded in calls]
    starts = [0, *accumulate(map(len, said))]
    turns = tuple(chain(*said))
    if number:
        starts = [len(recorded.call.prompt.turns) for recorded in calls]
        turns = turns_of(calls, purpose)
    if ending is not None and not ending.is_final and len(turns) > ending.turns:
        # It went on after all, and was cut off later.
        ending = None
    if ending is not None and ending.unread is not None and len(turns) < ending.turns:
        turns = (*turns, ending.unread)
    # Nobody notes the end of a question: it is over, or its last try failed.
    unanswered = "" if number else _fault(calls[-1])
    return Transcript(
        purpose=purpose,
        number=number,
        model=", then ".join(_models(calls)),
        opening=calls[0].call.prompt.model_copy(update={"turns": ()}),
        turns=tuple(_told_apart(turn) if number else _answered(turn) for turn in turns),
        usage=total,
        known=sum((recorded.cost for recorded in calls if recorded.bill_is_known), Cost()),
        cost=sum((recorded.cost for recorded in calls), Cost()),
        handovers=tuple(_handovers(calls, starts)),
        lost=Counter(fault.partition(":")[0] for fault in map(_fault, calls) if fault),
        ended=ending.reason if ending is not None else unanswered,
    )


def _fault(recorded: RecordedCall) -> str:
    return recorded.outcome.fault if recorded.outcome is not None else ""


def _said(recorded: RecordedCall, *, is_last: bool) -> Iterator[Turn]:
    """Yield what one call of a question added: a reply, behind what led to it.

    The next call may begin anew, without the replies that were of no use.
    """
    if recorded.has_reply or is_last:
        told = reversed(recorded.call.prompt.turns)
        yield from reversed([*takewhile(lambda turn: turn.speaker == "user", told)])
    if recorded.has_reply:
        yield recorded.reply.turn


def _handovers(calls: Sequence[RecordedCall], starts: Sequence[int]) -> Iterator[Handover]:
    model = ""
    for recorded, turn in zip(calls, starts, strict=False):
        if recorded.has_reply and recorded.call.stands_in and recorded.call.model != model:
            yield Handover(turn=turn, model=recorded.call.model, reason=recorded.call.stands_in)
        model = recorded.call.model if recorded.has_reply else model


def _told_apart(turn: Turn) -> Turn:
    """Return a turn with the calls or answers that its text holds beside the rest of the text."""
    if turn.speaker == "assistant" and not turn.calls and (calls := tool_calls_in(turn.text)):
        return turn.model_copy(update={"text": without_calls(turn.text), "calls": calls})
    if not turn.told:
        return turn
    beginning = "\n\n".join(result.text for result in turn.told)
    rest = turn.text.removeprefix(beginning).strip()
    return turn.model_copy(update={"text": rest, "results": turn.told, "told": ()})


def _answered(turn: Turn) -> Turn:
    """Return the answer to a question, which is a record, as if it were a call."""
    if turn.speaker == "user" or not turn.text.lstrip().startswith("{"):
        return turn
    answer = ToolCall(id="answer", name="answer", arguments=turn.text)
    return turn.model_copy(update={"text": "", "calls": (answer,)})


def _models(calls: Sequence[RecordedCall]) -> Iterable[str]:
    """Return those who answered, else the one that was asked first."""
    answered = dict.fromkeys(recorded.call.model for recorded in calls if recorded.has_reply)
    return answered or (calls[0].call.model,)
