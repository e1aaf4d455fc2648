"""A reply of Anthropic's Messages API, gathered from a stream or taken as a whole."""

import json
from collections.abc import Mapping

from anthropic.types import Message, RawContentBlockDelta, RawMessageStreamEvent
from pydantic import BaseModel

from kernelwright.agents.message import Reply, Stop, ToolCall, Usage, echoed, echoed_arguments
from kernelwright.agents.providers.anthropic_request import FORMAT
from kernelwright.agents.providers.client import Limits, Text
from kernelwright.agents.providers.fault import CUT_SHORT, EMPTY, Fault, FaultKind
from kernelwright.agents.providers.reported import UNREPORTED, count
from kernelwright.agents.providers.tool_call import made_call, object_of


class GatheredMessage:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self._room = Text(limits.reply_bytes)
        self._blocks: dict[int, dict[str, object]] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._reported: dict[str, object] = {}
        self.has_begun = False
        self.stop_reason: str | None = None
        self.is_complete = False

    @property
    def usage(self) -> Usage:
        """What the server has reported so far; later counts stand for the whole reply."""
        return _usage(self._reported)

    def take(self, message: Message) -> None:
        """Take in a reply that comes as a whole."""
        self.has_begun = self.is_complete = True
        self._report(message, is_whole=True)
        self._stop(message)
        for index, block in enumerate(message.content):
            self._blocks[index] = block.model_dump(exclude_none=True, warnings=False)
            if block.type == "tool_use":
                self._pieces[index] = {"partial_json": [json.dumps(block.input)]}

    def add(self, event: RawMessageStreamEvent) -> None:
        """Take in an event of the stream."""
        if event.type == "message_start":
            self.has_begun = True
            self._report(event.message, is_whole=False)
        elif event.type == "content_block_start":
            self._blocks[event.index] = event.content_block.model_dump(
                exclude_none=True, warnings=False
            )
        elif event.type == "content_block_delta":
            self._grow(event.index, event.delta)
        elif event.type == "message_delta":
            self._stop(event.delta)
            self._report(event, is_whole=True)
        elif event.type == "message_stop":
            self.is_complete = True

    def _stop(self, holder: BaseModel) -> None:
        reason = _field(holder, "stop_reason")
        self.stop_reason = reason if isinstance(reason, str) else self.stop_reason

    def _report(self, holder: BaseModel, *, is_whole: bool) -> None:
        """Take in counts: they grow with the reply, so a smaller one corrects nothing.

        Where a reply begins, its output is not counted yet.
        """
        usage = _field(holder, "usage")
        for name, value in (usage if isinstance(usage, dict) else {}).items():
            if name == "output_tokens" and not is_whole:
                continue
            known = count(self._reported.get(name))
            if known is None or (count(value) or 0) > known:
                self._reported[name] = value

    def _grow(self, index: int, delta: RawContentBlockDelta) -> None:
        self._blocks.setdefault(index, {"type": "text", "text": ""})
        pieces: Mapping[str, str] = delta.model_dump(
            include={"text", "thinking", "signature", "partial_json"}, exclude_none=True
        )
        for name, piece in pieces.items():
            self._room.add(piece)
            self._pieces.setdefault(index, {}).setdefault(name, []).append(piece)

    def _text(self, index: int, name: str) -> str:
        """What arrived of a block's field, after what it began with."""
        begun = self._blocks[index].get(name)
        pieces = self._pieces.get(index, {}).get(name, ())
        return (begun if isinstance(begun, str) else "") + "".join(pieces)

    def _joined(self, kind: str) -> str:
        places = (i for i, block in sorted(self._blocks.items()) if block.get("type") == kind)
        return "".join(self._text(place, kind) for place in places)

    def _calls(self, turn: int) -> tuple[ToolCall, ...]:
        """Return the calls, named in their blocks too as the conversation names them."""
        indices = [i for i, b in sorted(self._blocks.items()) if b.get("type") == "tool_use"]
        calls: list[ToolCall] = []
        for place, index in enumerate(indices):
            block = self._blocks[index]
            name = str(block.get("name") or "")
            calls.append(made_call(turn, place, name, self._text(index, "partial_json")))
            block |= {"id": calls[-1].id, "name": calls[-1].name}
        return tuple(calls)

    def reply(self, model: str, *, turn: int, is_record: bool) -> Reply:
        """Return the whole reply, which is that turn of its conversation.

        Raises:
            Fault: the stream ended before it was there.
        """
        if not self.is_complete:
            if not self.has_begun:
                raise Fault(FaultKind.UNREADABLE, EMPTY)
            raise Fault(FaultKind.DROPPED, CUT_SHORT, usage=self.usage)
        calls, text = self._calls(turn), self._joined("text")
        stop = _STOPS.get(self.stop_reason or "", "done")
        if is_record:
            text = "".join(call.arguments for call in calls) or text
            calls = ()
        return Reply(
            text=text,
            calls=calls,
            reasoning=self._joined("thinking"),
            # A block that was cut off is refused when it is sent back.
            native="" if is_record or stop != "done" else self._native(),
            native_format=FORMAT,
            stop=stop,
            usage=self.usage,
            model=model,
        )

    def _native(self) -> str:
        """The reply's blocks as the next request has to repeat them."""
        blocks: list[dict[str, object]] = []
        for index, block in sorted(self._blocks.items()):
            names = {n: self._text(index, n) for n in self._pieces.get(index, {})}
            if block.get("type") == "tool_use":
                names = {}
                arguments = echoed_arguments(self._text(index, "partial_json"))
                block = {**block, "input": object_of(arguments)}
            elif block.get("type") == "text":
                # Thoughts stay as they are: they are signed.
                names = {"text": echoed(self._text(index, "text"))}
            whole = {**block, **names}
            # The API refuses empty text that it has sent itself.
            if whole.get("type") != "text" or whole.get("text"):
                blocks.append(whole)
        return json.dumps(blocks) if blocks else ""


_STOPS: dict[str, Stop] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
}


def _field(holder: BaseModel, name: str) -> object:
    """Return a field that other servers than Anthropic's leave out, which the SDK allows."""
    told: object = holder.model_dump(include={name}, exclude_none=True, warnings=False).get(name)
    return told


def _usage(reported: Mapping[str, object]) -> Usage:
    read, output = count(reported.get("input_tokens")), count(reported.get("output_tokens"))
    if read is None:
        return UNREPORTED
    written = count(reported.get("cache_creation_input_tokens")) or 0
    by_time = _counts(reported.get("cache_creation"))
    for_an_hour = by_time.get("ephemeral_1h_input_tokens", 0)
    for_minutes = by_time.get("ephemeral_5m_input_tokens", 0)
    thinking = _counts(reported.get("output_tokens_details")).get("thinking_tokens", 0)
    return Usage(
        input_tokens=read,
        output_tokens=output or 0,
        cache_read_tokens=count(reported.get("cache_read_input_tokens")) or 0,
        cache_write_tokens=max(written - for_an_hour, for_minutes),
        hour_write_tokens=for_an_hour,
        reasoning_tokens=min(thinking, output or 0),
        is_estimate=output is None,
    )


def _counts(parts: object) -> dict[str, int]:
    found = parts if isinstance(parts, dict) else {}
    return {str(name): count(value) or 0 for name, value in found.items()}
