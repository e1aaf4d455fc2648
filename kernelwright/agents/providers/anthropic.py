"""Claude models through the official SDK: adaptive thinking, tools, prompt caching, streaming."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import anthropic
from anthropic.types import (
    CacheControlEphemeralParam,
    ContentBlockParam,
    MessageParam,
    OutputConfigParam,
    RawContentBlockDelta,
    RawMessageStreamEvent,
    TextBlockParam,
    ThinkingConfigParam,
    ToolChoiceParam,
    ToolParam,
)
from anthropic.types import Usage as ReportedUsage

from kernelwright.agents.message import Prompt, Reply, Stop, ToolCall, Turn, Usage
from kernelwright.agents.providers.client import (
    BROKEN,
    BoundedTransport,
    Endpoint,
    Features,
    Limits,
    ReplyMode,
    ReplyShape,
    Text,
    broken_fault,
    spelled_out,
    status_fault,
    timeouts,
    with_tools_as_text,
)
from kernelwright.agents.providers.fault import Fault, FaultKind

FORMAT = "anthropic"
_WORDS = {
    "effort": ("effort",),
    "thinking": ("thinking",),
    "hour": ("ttl",),
    "schema": ("output_config", "format", "schema"),
    "tools": ("tool",),
}
_Ttl = Literal["5m", "1h"]


class AnthropicClient:
    """The Messages API; gives up what a model refuses: effort, thinking, schemas, tools."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self._features = Features(_WORDS)
        self._client = anthropic.AsyncAnthropic(
            # A server of one's own wants no key, and the SDK sends nothing without one.
            api_key=endpoint.key.reveal() or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            # A ping is a byte: only a server that says nothing at all has stalled.
            timeout=timeouts(limits, read_s=limits.stall_s),
            http_client=anthropic.DefaultAsyncHttpxClient(transport=BoundedTransport(limits)),
        )

    @property
    def name(self) -> str:
        """Return `provider:model`."""
        return self._endpoint.name

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""
        return self._features.mode

    async def send(self, prompt: Prompt, shape: ReplyShape | None, limits: Limits) -> Reply:
        """Send one request; see `ProviderClient.send`."""
        gathered = _Gathered(limits)
        request = self._request(prompt, shape)
        try:
            async with asyncio.timeout(limits.total_s):
                await self._stream(request, limits, gathered)
        except anthropic.APIStatusError as e:
            fault = self._status_fault(e, request.in_use)
        except (anthropic.AnthropicError, *BROKEN) as e:
            fault = broken_fault(e)
            fault.message = self._endpoint.key.redact(fault.message)
        else:
            return gathered.reply(self.name, is_record=shape is not None)
        fault.usage = gathered.usage if gathered.has_begun else None
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    def _request(self, prompt: Prompt, shape: ReplyShape | None) -> "_Request":
        """Choose which features this request asks for."""
        request = _Request(prompt)
        if prompt.tools and shape is None:
            if "tools" in self._features:
                request.in_use.add("tools")
            else:
                request.prompt = with_tools_as_text(prompt)
        elif shape is not None and self.mode is ReplyMode.TEXT:
            request.prompt = spelled_out(prompt, shape)
        elif shape is not None:
            request.shape = shape
            request.in_use.add("schema" if self.mode is ReplyMode.SCHEMA else "tools")
        effort = self._endpoint.effort
        # A forced tool excludes thinking.
        if "thinking" in self._features and effort != "none" and not request.forces_tool:
            request.in_use.add("thinking")
        if "effort" in self._features and effort not in (None, "none", "minimal"):
            request.in_use.add("effort")
        if "hour" in self._features and prompt.keeps_cache_for_an_hour:
            request.in_use.add("hour")
        return request

    async def _stream(self, request: "_Request", limits: Limits, gathered: "_Gathered") -> None:
        thinking: ThinkingConfigParam = {"type": "adaptive", "display": "summarized"}
        output: OutputConfigParam = {}
        if "schema" in request.in_use and request.shape is not None:
            output["format"] = {"type": "json_schema", "schema": request.shape.json_schema}
        effort = self._endpoint.effort
        if "effort" in request.in_use and effort != "none" and effort != "minimal":
            output["effort"] = effort
        stream = await self._client.messages.create(
            model=self._endpoint.model,
            max_tokens=limits.output_tokens,
            system=[_cached(request.prompt.system, request.ttl)],
            messages=request.messages,
            thinking=thinking if "thinking" in request.in_use else anthropic.omit,
            tools=request.tools or anthropic.omit,
            tool_choice=request.tool_choice or anthropic.omit,
            output_config=output or anthropic.omit,
            stream=True,
        )
        async with stream:
            async for event in stream:
                gathered.add(event)

    def _status_fault(self, error: anthropic.APIStatusError, in_use: set[str]) -> Fault:
        message = self._endpoint.key.redact(error.api_message or error.message)
        if error.status_code in (400, 422) and self._features.concede(message, in_use):
            return Fault(FaultKind.UNSUPPORTED, message)
        status = 529 if error.type == "overloaded_error" else error.status_code
        # An error event inside a stream arrives with the stream's own status, 200.
        if status == 200:
            return Fault(FaultKind.DROPPED, message)
        return status_fault(status, message, error.response.headers)

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()


@dataclass
class _Request:
    """A prompt in Anthropic's format, with the features that it asks for."""

    prompt: Prompt
    shape: ReplyShape | None = None
    in_use: set[str] = field(default_factory=set)

    @property
    def forces_tool(self) -> bool:
        return self.shape is not None and "tools" in self.in_use

    @property
    def ttl(self) -> _Ttl:
        return "1h" if "hour" in self.in_use else "5m"

    @property
    def tools(self) -> list[ToolParam]:
        if self.shape is not None and self.forces_tool:
            return [_tool(self.shape.name, self.shape.description, self.shape.json_schema)]
        if "tools" not in self.in_use:
            return []
        tools = [_tool(t.name, t.description, t.json_schema) for t in self.prompt.tools]
        # Tools come first in the prefix: marked apart, they stay cached under another system text.
        tools[-1]["cache_control"] = _mark(self.ttl)
        return tools

    @property
    def tool_choice(self) -> ToolChoiceParam | None:
        if self.shape is not None and self.forces_tool:
            return {"type": "tool", "name": self.shape.name, "disable_parallel_tool_use": True}
        return {"type": "auto"} if "tools" in self.in_use else None

    @property
    def messages(self) -> list[MessageParam]:
        prompt = self.prompt
        opening: list[TextBlockParam] = []
        if prompt.context:
            opening.append(_cached(prompt.context, self.ttl))
        opening.append({"type": "text", "text": prompt.request})
        messages: list[MessageParam] = [{"role": "user", "content": opening}]
        last = len(prompt.turns) - 1
        for place, turn in enumerate(prompt.turns):
            blocks = _blocks(turn)
            if place == last and turn.speaker == "user" and blocks:
                # The history up to here is what the next request begins with.
                _mark_last(blocks, self.ttl)
            messages.append(_message(turn.speaker, blocks))
        return messages


def _message(speaker: str, blocks: list[ContentBlockParam]) -> MessageParam:
    if speaker == "user":
        return {"role": "user", "content": blocks}
    return {"role": "assistant", "content": blocks}


def _mark(ttl: _Ttl) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": "1h"} if ttl == "1h" else {"type": "ephemeral"}


def _cached(text: str, ttl: _Ttl) -> TextBlockParam:
    return {"type": "text", "text": text, "cache_control": _mark(ttl)}


def _mark_last(blocks: list[ContentBlockParam], ttl: _Ttl) -> None:
    block = blocks[-1]
    if isinstance(block, dict) and block["type"] in ("text", "tool_result"):
        cast("dict[str, object]", block)["cache_control"] = _mark(ttl)


def _tool(name: str, description: str, schema: dict[str, object]) -> ToolParam:
    return {"name": name, "description": description, "input_schema": schema}


def _blocks(turn: Turn) -> list[ContentBlockParam]:
    if turn.native_format == FORMAT and turn.native:
        return cast("list[ContentBlockParam]", json.loads(turn.native))
    blocks: list[ContentBlockParam] = [
        {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.text,
            "is_error": result.is_error,
        }
        for result in turn.results
    ]
    if turn.text or not (turn.results or turn.calls):
        blocks.append({"type": "text", "text": turn.text or "(nothing)"})
    for call in turn.calls:
        block: ContentBlockParam = {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": _object(call.arguments),
        }
        blocks.append(block)
    return blocks


def _object(text: str) -> dict[str, object]:
    """Read a call's arguments; what is no JSON object still has to be sent back as one."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"unreadable": text}


class _Gathered:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self._room = Text(limits.reply_bytes)
        self._blocks: dict[int, dict[str, object]] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self.usage = Usage()
        self.has_begun = False
        self.stop_reason: str | None = None
        self.is_complete = False

    def add(self, event: RawMessageStreamEvent) -> None:
        if event.type == "message_start":
            self.has_begun = True
            self.usage = _usage(event.message.usage)
        elif event.type == "content_block_start":
            self._blocks[event.index] = event.content_block.model_dump(exclude_none=True)
        elif event.type == "content_block_delta":
            self._grow(event.index, event.delta)
        elif event.type == "message_delta":
            self.stop_reason = event.delta.stop_reason
            details = event.usage.output_tokens_details
            self.usage = self.usage.model_copy(
                update={
                    "output_tokens": event.usage.output_tokens,
                    "reasoning_tokens": details.thinking_tokens if details else 0,
                }
            )
        elif event.type == "message_stop":
            self.is_complete = True

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

    def _calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(
                id=str(block.get("id") or ""),
                name=str(block.get("name") or ""),
                arguments=self._text(index, "partial_json") or "{}",
            )
            for index, block in sorted(self._blocks.items())
            if block.get("type") == "tool_use"
        )

    def reply(self, model: str, *, is_record: bool) -> Reply:
        if not self.is_complete:
            raise Fault(
                FaultKind.DROPPED,
                "the stream ended in the middle of the reply",
                usage=self.usage if self.has_begun else None,
            )
        calls, text = self._calls(), self._joined("text")
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
                block = {**block, "input": _object(self._text(index, "partial_json"))}
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


def _usage(reported: ReportedUsage) -> Usage:
    written = reported.cache_creation_input_tokens or 0
    for_an_hour = 0
    if reported.cache_creation is not None:
        for_an_hour = reported.cache_creation.ephemeral_1h_input_tokens
    return Usage(
        input_tokens=reported.input_tokens,
        output_tokens=reported.output_tokens,
        cache_read_tokens=reported.cache_read_input_tokens or 0,
        cache_write_tokens=max(written - for_an_hour, 0),
        hour_write_tokens=for_an_hour,
    )
