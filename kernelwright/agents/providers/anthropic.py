"""Claude models through the official SDK: forced tool use, prompt caching, streaming."""

import asyncio

import anthropic
from anthropic.types import (
    MessageParam,
    OutputConfigParam,
    RawMessageStreamEvent,
    TextBlockParam,
    ToolChoiceToolParam,
    ToolParam,
)

from kernelwright.agents.message import Prompt, Reply, Stop, Usage
from kernelwright.agents.providers.client import (
    BROKEN,
    BoundedTransport,
    Endpoint,
    Limits,
    ReplyMode,
    ReplyShape,
    Text,
    broken_fault,
    spelled_out,
    status_fault,
    timeouts,
)
from kernelwright.agents.providers.fault import Fault, FaultKind

_MODE_WORDS = {
    ReplyMode.TOOL: ("tool",),
    ReplyMode.SCHEMA: ("output_config", "format", "schema"),
    ReplyMode.TEXT: (),
}


class AnthropicClient:
    """The Messages API; gives up forced tools, then schemas, where a model has none."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self.mode = ReplyMode.TOOL
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

    async def send(self, prompt: Prompt, shape: ReplyShape, limits: Limits) -> Reply:
        """Send one request; see `ProviderClient.send`."""
        gathered = _Gathered(limits)
        try:
            async with asyncio.timeout(limits.total_s):
                await self._stream(prompt, shape, limits, gathered)
        except anthropic.APIStatusError as e:
            fault = self._status_fault(e)
        except (anthropic.AnthropicError, *BROKEN) as e:
            fault = broken_fault(e)
            fault.message = self._endpoint.key.redact(fault.message)
        else:
            return gathered.reply(self.name)
        fault.usage = gathered.usage if gathered.has_begun else None
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    async def _stream(
        self, prompt: Prompt, shape: ReplyShape, limits: Limits, gathered: "_Gathered"
    ) -> None:
        if self.mode is ReplyMode.TEXT:
            prompt = spelled_out(prompt, shape)
        tool: ToolParam = {
            "name": shape.name,
            "description": shape.description,
            "input_schema": shape.json_schema,
        }
        choice: ToolChoiceToolParam = {
            "type": "tool",
            "name": shape.name,
            "disable_parallel_tool_use": True,
        }
        output: OutputConfigParam = {"format": {"type": "json_schema", "schema": shape.json_schema}}
        stream = await self._client.messages.create(
            model=self._endpoint.model,
            max_tokens=limits.output_tokens,
            system=[_cached(prompt.system)],
            messages=_messages(prompt),
            tools=[tool] if self.mode is ReplyMode.TOOL else anthropic.omit,
            tool_choice=choice if self.mode is ReplyMode.TOOL else anthropic.omit,
            output_config=output if self.mode is ReplyMode.SCHEMA else anthropic.omit,
            stream=True,
        )
        async with stream:
            async for event in stream:
                gathered.add(event)

    def _status_fault(self, error: anthropic.APIStatusError) -> Fault:
        message = self._endpoint.key.redact(error.api_message or error.message)
        weaker = self.mode.weaker
        words = message.lower()
        if (
            error.status_code in (400, 422)
            and weaker is not None
            and any(word in words for word in _MODE_WORDS[self.mode])
        ):
            self.mode = weaker
            return Fault(FaultKind.UNSUPPORTED, message)
        status = 529 if error.type == "overloaded_error" else error.status_code
        # An error event inside a stream arrives with the stream's own status, 200.
        if status == 200:
            return Fault(FaultKind.DROPPED, message)
        return status_fault(status, message, error.response.headers)

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()


class _Gathered:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self.text = Text(limits.reply_bytes)
        self.tool = Text(limits.reply_bytes)
        self.usage = Usage()
        self.has_begun = False
        self.stop_reason: str | None = None
        self.is_complete = False

    def add(self, event: RawMessageStreamEvent) -> None:
        if event.type == "message_start":
            self.has_begun = True
            usage = event.message.usage
            self.usage = Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_input_tokens or 0,
                cache_write_tokens=usage.cache_creation_input_tokens or 0,
            )
        elif event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                self.text.add(event.delta.text)
            elif event.delta.type == "input_json_delta":
                self.tool.add(event.delta.partial_json)
        elif event.type == "message_delta":
            self.stop_reason = event.delta.stop_reason
            self.usage = self.usage.model_copy(update={"output_tokens": event.usage.output_tokens})
        elif event.type == "message_stop":
            self.is_complete = True

    def reply(self, model: str) -> Reply:
        if not self.is_complete:
            raise Fault(
                FaultKind.DROPPED,
                "the stream ended in the middle of the reply",
                usage=self.usage if self.has_begun else None,
            )
        return Reply(
            text=str(self.tool) or str(self.text),
            stop=_STOPS.get(self.stop_reason or "", "done"),
            usage=self.usage,
            model=model,
        )


_STOPS: dict[str, Stop] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
}


def _cached(text: str) -> TextBlockParam:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def _messages(prompt: Prompt) -> list[MessageParam]:
    opening: list[TextBlockParam] = [_cached(prompt.context)] if prompt.context else []
    opening.append({"type": "text", "text": prompt.request})
    messages: list[MessageParam] = [{"role": "user", "content": opening}]
    for turn in prompt.turns:
        if turn.speaker == "user":
            messages.append({"role": "user", "content": turn.text})
        else:
            messages.append({"role": "assistant", "content": turn.text})
    return messages
