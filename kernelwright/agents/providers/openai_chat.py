"""OpenAI's Chat Completions format through the official SDK, for any server that speaks it."""

import asyncio
from collections.abc import AsyncIterator

import openai
from openai.types.chat import (
    ChatCompletionChunk,
    ChatCompletionMessageParam,
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionToolParam,
)
from openai.types.completion_usage import CompletionUsage
from openai.types.shared_params import ResponseFormatJSONSchema

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
    ReplyMode.TOOL: ("tool", "function"),
    ReplyMode.SCHEMA: ("response_format", "json_schema", "schema", "grammar"),
    ReplyMode.TEXT: (),
}


class OpenAIChatClient:
    """Chat Completions; gives up what a server refuses: usage in streams, tools, schemas."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self.mode = ReplyMode.TOOL
        self._reports_usage = True
        # OpenAI's reasoning models refuse the old name, most local servers know no other.
        self._uses_old_limit = endpoint.base_url is not None
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.key.reveal() or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=timeouts(limits, read_s=limits.first_event_s),
            http_client=openai.DefaultAsyncHttpxClient(transport=BoundedTransport(limits)),
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
        except openai.APIStatusError as e:
            fault = self._status_fault(e)
        except (openai.OpenAIError, *BROKEN) as e:
            fault = broken_fault(e)
            fault.message = self._endpoint.key.redact(fault.message)
        else:
            return gathered.reply(self.name, prompt)
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    async def _stream(
        self, prompt: Prompt, shape: ReplyShape, limits: Limits, gathered: "_Gathered"
    ) -> None:
        if self.mode is ReplyMode.TEXT:
            prompt = spelled_out(prompt, shape)
        tool: ChatCompletionToolParam = {
            "type": "function",
            "function": {
                "name": shape.name,
                "description": shape.description,
                "parameters": shape.json_schema,
            },
        }
        choice: ChatCompletionNamedToolChoiceParam = {
            "type": "function",
            "function": {"name": shape.name},
        }
        schema: ResponseFormatJSONSchema = {
            "type": "json_schema",
            "json_schema": {"name": shape.name, "schema": shape.json_schema, "strict": True},
        }
        old, most = self._uses_old_limit, limits.output_tokens
        stream = await self._client.chat.completions.create(
            model=self._endpoint.model,
            messages=_messages(prompt),
            max_tokens=most if old else openai.omit,
            max_completion_tokens=openai.omit if old else most,
            tools=[tool] if self.mode is ReplyMode.TOOL else openai.omit,
            tool_choice=choice if self.mode is ReplyMode.TOOL else openai.omit,
            response_format=schema if self.mode is ReplyMode.SCHEMA else openai.omit,
            stream_options={"include_usage": True} if self._reports_usage else openai.omit,
            stream=True,
        )
        async with stream:
            async for chunk in _watched(aiter(stream), limits):
                gathered.add(chunk)

    def _status_fault(self, error: openai.APIStatusError) -> Fault:
        message = self._endpoint.key.redact(_said(error))
        if error.status_code in (400, 422) and self._concede(message.lower()):
            return Fault(FaultKind.UNSUPPORTED, message)
        return status_fault(error.status_code, message, error.response.headers)

    def _concede(self, words: str) -> bool:
        """Give up the feature that the server names; False when it names none of them."""
        weaker = self.mode.weaker
        if self._reports_usage and ("stream_options" in words or "include_usage" in words):
            self._reports_usage = False
        elif "max_completion_tokens" in words or "max_tokens" in words:
            refused_old = "'max_tokens'" in words or "max_completion_tokens" not in words
            if refused_old is not self._uses_old_limit:
                return False
            self._uses_old_limit = not self._uses_old_limit
        elif weaker is not None and any(word in words for word in _MODE_WORDS[self.mode]):
            self.mode = weaker
        else:
            return False
        return True

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()


def _said(error: openai.APIStatusError) -> str:
    """Return the server's own words, without the status that the SDK puts before them."""
    words = error.body.get("message") if isinstance(error.body, dict) else None
    return words if isinstance(words, str) and words else error.message


async def _watched(
    chunks: AsyncIterator[ChatCompletionChunk], limits: Limits
) -> AsyncIterator[ChatCompletionChunk]:
    """The chunks, for as long as none lets the stall limit pass once a reply has begun."""
    wait_s = limits.first_event_s
    while True:
        try:
            async with asyncio.timeout(wait_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError as e:
            raise TimeoutError(f"no data for {wait_s:g} s") from e
        yield chunk
        wait_s = limits.stall_s


class _Gathered:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self.text = Text(limits.reply_bytes)
        self.tool = Text(limits.reply_bytes)
        self.refusal = Text(limits.reply_bytes)
        self.usage: CompletionUsage | None = None
        self.finish_reason: str | None = None

    def add(self, chunk: ChatCompletionChunk) -> None:
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            self.finish_reason = choice.finish_reason or self.finish_reason
            self.text.add(choice.delta.content or "")
            self.refusal.add(choice.delta.refusal or "")
            for call in choice.delta.tool_calls or ():
                if call.function is not None:
                    self.tool.add(call.function.arguments or "")

    def reply(self, model: str, prompt: Prompt) -> Reply:
        if self.finish_reason is None:
            raise Fault(FaultKind.DROPPED, "the stream ended in the middle of the reply")
        text = str(self.tool) or str(self.text)
        refusal = str(self.refusal)
        stop: Stop = "refused" if refusal else _STOPS.get(self.finish_reason, "done")
        return Reply(
            text=refusal or text, stop=stop, usage=_usage(self.usage, prompt, text), model=model
        )


_STOPS: dict[str, Stop] = {"length": "truncated", "content_filter": "refused"}


def _usage(reported: CompletionUsage | None, prompt: Prompt, text: str) -> Usage:
    if reported is None:
        # No token is shorter than a byte, so this errs upwards only.
        return Usage(
            input_tokens=len(prompt.text.encode()),
            output_tokens=len(text.encode()),
            is_estimate=True,
        )
    details = reported.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or 0
    return Usage(
        input_tokens=max(reported.prompt_tokens - cached, 0),
        output_tokens=reported.completion_tokens,
        cache_read_tokens=cached,
    )


def _messages(prompt: Prompt) -> list[ChatCompletionMessageParam]:
    opening = "\n\n".join(part for part in (prompt.context, prompt.request) if part)
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": opening},
    ]
    for turn in prompt.turns:
        if turn.speaker == "user":
            messages.append({"role": "user", "content": turn.text})
        else:
            messages.append({"role": "assistant", "content": turn.text})
    return messages
