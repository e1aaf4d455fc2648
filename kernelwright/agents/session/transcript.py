"""Conversations as they were held, from the ledger's calls, and as people read them."""

import json
from collections.abc import Iterable, Iterator, Sequence

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose, ToolCall, Turn, Usage
from kernelwright.agents.session.ledger import RecordedCall, turns_of
from kernelwright.agents.session.parse import tool_calls_in, without_calls
from kernelwright.metal.diagnostic import Record
from kernelwright.plural import counted

_BODIES = ("source", "header")


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


class Transcript(Record):
    """One conversation with tools, from its opening to its last turn."""

    purpose: Purpose
    number: int
    """Its place among the conversations about the task, from 1."""
    model: str
    """Who answered, in turn, where one stepped in for another."""
    opening: Prompt
    turns: tuple[Turn, ...]
    usage: Usage
    """Of whole replies alone, as `known`."""
    known: Cost
    cost: Cost
    """At most: a call whose reply never came whole counts at its worst, as caps count it."""
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
    """Return the conversations that calls belong to, in the order in which they began.

    They are numbered from one above `before`, how many there were about the task before them.
    A later run that did not begin as an earlier one did holds a conversation of its own. Of several
    endings of one conversation the last counts: it may have gone on after an outage.
    """
    found: dict[tuple[Purpose, str], list[RecordedCall]] = {}
    for recorded in calls:
        if recorded.call.purpose.conversation:
            key = recorded.call.purpose, _beginning(recorded.call.prompt)
            found.setdefault(key, []).append(recorded)
    latest = {key[0]: key for key in found}
    ended = {latest.get(ending.purpose): ending for ending in endings}
    return tuple(
        _transcript(number, held, ended.get(key))
        for number, (key, held) in enumerate(found.items(), start=before + 1)
    )


def _beginning(prompt: Prompt) -> str:
    return "\n\n".join((prompt.system, prompt.context, prompt.request))


def transcript_lines(transcript: Transcript) -> Iterator[str]:
    """Yield a conversation as a reader wants it: who said what, tools and their answers."""
    usage, cost = transcript.usage, transcript.cost
    name = f"Conversation {transcript.number} with {transcript.model}"
    thinking = f"{usage.reasoning_tokens:,} of them thinking"
    if not usage.reasoning_tokens and any(turn.reasoning for turn in transcript.turns):
        thinking = "the server does not say how many of them thinking"
    if cost.calls:
        yield (
            f"{name}: {counted(cost.calls, 'call')}, {_money(transcript)}; "
            f"{usage.prompt_tokens:,} tokens read ({transcript.cached_share:.0%} of them "
            f"from the cache), {usage.output_tokens:,} written ({thinking})"
            f"{_lost(cost.tokens - usage.total_tokens)}"
        )
    else:
        yield f"{name}, replayed from the record at no cost"
    yield f"It opens with {transcript.opening.opening_bytes:,} bytes, which end:"
    yield from _indented(transcript.opening.request)
    for turn in transcript.turns:
        yield ""
        yield from _turn_lines(turn)
    if transcript.ended:
        yield ""
        yield f"The conversation ended: {transcript.ended.rstrip('.')}."


def _money(transcript: Transcript) -> str:
    known, most = f"${transcript.known.dollars:.4f}", f"${transcript.cost.dollars:.4f}"
    return known if known == most else f"{known}, at most {most}"


def _lost(tokens: int) -> str:
    return f"; up to {tokens:,} more in replies that never came whole" if tokens > 0 else ""


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
    turns = turns_of(calls, purpose)
    if ending is not None and not ending.is_final and len(turns) > ending.turns:
        # It went on after all, and was cut off later.
        ending = None
    if ending is not None and ending.unread is not None and len(turns) < ending.turns:
        turns = (*turns, ending.unread)
    return Transcript(
        purpose=purpose,
        number=number,
        model=", then ".join(_models(calls)),
        opening=calls[0].call.prompt.model_copy(update={"turns": ()}),
        turns=tuple(map(_told_apart, turns)),
        usage=total,
        known=sum((recorded.cost for recorded in calls if recorded.bill_is_known), Cost()),
        cost=sum((recorded.cost for recorded in calls), Cost()),
        ended="" if ending is None else ending.reason,
    )


def _told_apart(turn: Turn) -> Turn:
    """Return a turn with the calls or answers that its text holds beside the rest of the text."""
    if turn.speaker == "assistant" and not turn.calls and (calls := tool_calls_in(turn.text)):
        return turn.model_copy(update={"text": without_calls(turn.text), "calls": calls})
    if not turn.told:
        return turn
    beginning = "\n\n".join(result.text for result in turn.told)
    rest = turn.text.removeprefix(beginning).strip()
    return turn.model_copy(update={"text": rest, "results": turn.told, "told": ()})


def _models(calls: Sequence[RecordedCall]) -> Iterable[str]:
    """Return those who answered, else the one that was asked first."""
    answered = dict.fromkeys(recorded.call.model for recorded in calls if recorded.has_reply)
    return answered or (calls[0].call.model,)


def _turn_lines(turn: Turn) -> Iterator[str]:
    yield "model:" if turn.speaker == "assistant" else "kernelwright:"
    if turn.reasoning:
        yield from _indented(f"(thinks) {turn.reasoning}")
    for result in turn.results:
        yield from _indented(f"{'✗' if result.is_error else '✓'} {result.text}")
    if turn.text:
        yield from _indented(turn.text)
    for call in turn.calls:
        yield from _call_lines(call)


def _call_lines(call: ToolCall) -> Iterator[str]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        yield from _indented(f"→ {call.name}, unreadable: {call.arguments[:400]}")
        return
    program = arguments.get("program") if isinstance(arguments, dict) else None
    if not isinstance(program, dict):
        yield from _indented(f"→ {call.name} {_readable(arguments)}")
        return
    yield from _indented(f"→ {call.name}: {program.get('idea', '')}")
    for kernel in program.get("kernels") or ():
        launch = {key: value for key, value in kernel.items() if key not in _BODIES}
        yield from _indented(json.dumps(launch), 4)
        for body in _BODIES:
            yield from _indented(str(kernel.get(body) or ""), 6)


def _readable(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False).replace("\\n", "\n")


def _indented(text: str, by: int = 2) -> Iterator[str]:
    for line in text.splitlines():
        yield " " * by + line
