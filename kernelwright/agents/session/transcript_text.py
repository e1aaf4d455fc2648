"""Conversations as people read them: who said what, tools and their answers, long texts cut."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.agents.cap_text import in_dollars
from kernelwright.agents.message import ToolCall, Turn
from kernelwright.agents.session.parse import object_in
from kernelwright.agents.session.transcript import Handover, Transcript
from kernelwright.plural import counted

_BODIES = ("source", "header")
_LONGEST_TEXT = 8000
"""Characters of one text; a large kernel has five thousand."""


def transcript_lines(transcript: Transcript, *, full: bool = False) -> Iterator[str]:
    """Yield a conversation line by line.

    Args:
        transcript: what was said.
        full: whether a text is shown whole, however long it is.
    """
    return _Writer(None if full else _LONGEST_TEXT).lines(transcript)


@dataclass(frozen=True)
class _Writer:
    most: int | None
    """Characters that are shown of one text; None shows all."""

    def lines(self, transcript: Transcript) -> Iterator[str]:
        yield _heading(transcript)
        yield f"It opens with {transcript.opening.opening_bytes:,} bytes, which end:"
        yield from self._indented(transcript.opening.request)
        handovers = {handover.turn: handover for handover in transcript.handovers}
        for place, turn in enumerate(transcript.turns):
            yield ""
            yield from self._turn(turn, handovers.get(place))
        if transcript.ended:
            yield ""
            word = "conversation" if transcript.number else "question"
            yield f"The {word} ended: {transcript.ended.rstrip('.')}."

    def _turn(self, turn: Turn, handover: Handover | None) -> Iterator[str]:
        if handover is not None:
            yield f"{handover.model} answers from here on, because {handover.reason}."
            yield ""
        yield "model:" if turn.speaker == "assistant" else "kernelwright:"
        if turn.reasoning:
            yield from self._indented(f"(thinks) {turn.reasoning}")
        for result in turn.results:
            yield from self._indented(f"{'✗' if result.is_error else '✓'} {result.text}")
        if turn.text:
            yield from self._indented(turn.text)
        for call in turn.calls:
            yield from self._call(call)

    def _call(self, call: ToolCall) -> Iterator[str]:
        if (arguments := object_in(call.arguments)) is None:
            yield from self._indented(f"→ {call.name}, unreadable: {call.arguments}")
            return
        written = arguments.get("program")
        program = written if isinstance(written, dict) else {}
        kernels = program.get("kernels")
        if not isinstance(kernels, list) or not all(isinstance(k, dict) for k in kernels):
            yield from self._indented(f"→ {call.name} {_readable(arguments)}")
            return
        about = arguments.get("cause") or program.get("idea", "")
        yield from self._indented(f"→ {call.name}: {about}")
        for kernel in kernels:
            launch = {key: value for key, value in kernel.items() if key not in _BODIES}
            yield from self._indented(json.dumps(launch), 4)
            for body in _BODIES:
                yield from self._indented(str(kernel.get(body) or ""), 6)

    def _indented(self, text: str, by: int = 2) -> Iterator[str]:
        shown, rest = text, 0
        if self.most is not None and len(text) > self.most:
            shown = text[: self.most]
            rest = len(text) - self.most
        for line in shown.splitlines():
            yield " " * by + line
        if rest:
            yield " " * by + f"… {counted(rest, 'character')} more; --full or --json shows all."


def _money(transcript: Transcript) -> str:
    cost = transcript.cost
    known, more = in_dollars(cost.known_dollars), in_dollars(cost.assumed_dollars)
    return known if not cost.assumed_dollars else f"{known}, at most {more} more"


def _lost(tokens: int) -> str:
    return f"; up to {tokens:,} more in replies that never came whole" if tokens > 0 else ""


def _heading(transcript: Transcript) -> str:
    usage, cost = transcript.usage, transcript.cost
    name = f"Conversation {transcript.number} with {transcript.model}"
    if not transcript.number:
        name = f"A question of the {transcript.purpose.role} to {transcript.model}"
    if not cost.calls:
        return f"{name}, replayed from the record at no cost"
    thinking = f"{usage.reasoning_tokens:,} of them thinking"
    if not usage.reasoning_tokens and any(turn.reasoning for turn in transcript.turns):
        thinking = "the server does not say how many of them thinking"
    return (
        f"{name}: {counted(cost.calls, 'call')}{_without_reply(transcript)}, {_money(transcript)}; "
        f"{usage.prompt_tokens:,} tokens read ({transcript.cached_share:.0%} of them "
        f"from the cache), {usage.output_tokens:,} written ({thinking})"
        f"{_lost(cost.tokens - usage.total_tokens)}"
    )


def _without_reply(transcript: Transcript) -> str:
    causes = ", ".join(f"{count} × {cause}" for cause, count in sorted(transcript.lost.items()))
    return f" ({causes})" if causes else ""


def _readable(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False).replace("\\n", "\n")
