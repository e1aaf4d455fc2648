"""OpenAI's Responses format through the official SDK: reasoning kept from turn to turn."""

import asyncio
import hashlib
import json
from typing import cast

import openai
from openai.types.responses import (
    FunctionToolParam,
    Response,
    ResponseInputItemParam,
    ResponseOutputItem,
    ResponseStreamEvent,
    ResponseTextConfigParam,
    ResponseUsage,
    ToolChoiceFunctionParam,
)
from openai.types.shared_params import Reasoning

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
    timeouts,
    with_tools_as_text,
)
from kernelwright.agents.providers.fault import Fault, FaultKind, kind_of_status
from kernelwright.agents.providers.openai_errors import fault_of_status, watched

FORMAT = "openai-responses"
_WORDS = {
    "cache key": ("prompt_cache_key",),
    "summary": ("reasoning.summary", "summary"),
    "encrypted": ("encrypted", "include"),
    "effort": ("reasoning.effort", "effort"),
    "reasoning": ("reasoning",),
    "schema": ("text.format", "json_schema", "schema"),
    "tools": ("tool", "function"),
}


class OpenAIResponsesClient:
    """The Responses API, nothing kept by the server; gives up what a model refuses."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self._features = Features(_WORDS)
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

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""
        return self._features.mode

    async def send(self, prompt: Prompt, shape: ReplyShape | None, limits: Limits) -> Reply:
        """Send one request; see `ProviderClient.send`."""
        gathered, in_use = _Gathered(limits), self._in_use(prompt, shape)
        if prompt.tools and "tools" not in in_use:
            prompt = with_tools_as_text(prompt)
        try:
            async with asyncio.timeout(limits.total_s):
                await self._stream(prompt, shape, limits, gathered, in_use)
        except openai.APIStatusError as e:
            fault = fault_of_status(e, self._endpoint.key, self._features, in_use)
        except (openai.OpenAIError, *BROKEN) as e:
            fault = broken_fault(e)
            fault.message = self._endpoint.key.redact(fault.message)
        else:
            return gathered.reply(self.name, is_record=shape is not None)
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    def _in_use(self, prompt: Prompt, shape: ReplyShape | None) -> set[str]:
        """Choose which features this request asks for."""
        wanted = {"cache key"}
        if self._endpoint.effort != "none":
            wanted |= {"reasoning", "summary", "encrypted"}
        if self._endpoint.effort is not None:
            wanted |= {"reasoning", "effort"}
        if shape is not None and self.mode is ReplyMode.SCHEMA:
            wanted.add("schema")
        elif shape is not None or prompt.tools:
            wanted.add("tools")
        in_use = {feature for feature in wanted if feature in self._features}
        if "reasoning" not in in_use:
            in_use -= {"summary", "encrypted", "effort"}
        return in_use

    async def _stream(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        gathered: "_Gathered",
        in_use: set[str],
    ) -> None:
        if shape is not None and not {"schema", "tools"} & in_use:
            prompt = spelled_out(prompt, shape)
        text: ResponseTextConfigParam = {}
        tools = [_tool(t.name, t.description, t.json_schema) for t in prompt.tools]
        choice: ToolChoiceFunctionParam | None = None
        if shape is not None and "schema" in in_use:
            text["format"] = {
                "type": "json_schema",
                "name": shape.name,
                "schema": shape.json_schema,
                "strict": True,
            }
        elif shape is not None and "tools" in in_use:
            tools = [_tool(shape.name, shape.description, shape.json_schema)]
            choice = {"type": "function", "name": shape.name}
        stream = await self._client.responses.create(
            model=self._endpoint.model,
            instructions=prompt.system,
            input=_items(prompt),
            max_output_tokens=limits.output_tokens,
            store=False,
            reasoning=self._reasoning(in_use) or openai.omit,
            include=["reasoning.encrypted_content"] if "encrypted" in in_use else openai.omit,
            prompt_cache_key=_cache_key(prompt) if "cache key" in in_use else openai.omit,
            text=text or openai.omit,
            tools=tools or openai.omit,
            tool_choice=choice or openai.omit,
            stream=True,
        )
        async with stream:
            async for event in watched(aiter(stream), limits):
                gathered.add(event)

    def _reasoning(self, in_use: set[str]) -> Reasoning:
        reasoning: Reasoning = {}
        if "effort" in in_use:
            reasoning["effort"] = self._endpoint.effort
        if "summary" in in_use:
            reasoning["summary"] = "auto"
        return reasoning

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()


def _cache_key(prompt: Prompt) -> str:
    """Name the prefix that calls on one task share, so that one machine gets them all."""
    return hashlib.sha256(f"{prompt.system}\0{prompt.context}".encode()).hexdigest()[:32]


def _tool(name: str, description: str, schema: dict[str, object]) -> FunctionToolParam:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": True,
    }


def _items(prompt: Prompt) -> list[ResponseInputItemParam]:
    opening = "\n\n".join(part for part in (prompt.context, prompt.request) if part)
    items: list[ResponseInputItemParam] = [{"role": "user", "content": opening}]
    for turn in prompt.turns:
        items += _turn_items(turn)
    return items


def _turn_items(turn: Turn) -> list[ResponseInputItemParam]:
    if turn.native_format == FORMAT and turn.native:
        return cast("list[ResponseInputItemParam]", json.loads(turn.native))
    items: list[ResponseInputItemParam] = [
        {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
        for result in turn.results
    ]
    if turn.text or not (turn.results or turn.calls):
        items.append({"role": turn.speaker, "content": turn.text or "(nothing)"})
    for call in turn.calls:
        item: ResponseInputItemParam = {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        items.append(item)
    return items


class _Gathered:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self._room = Text(limits.reply_bytes)
        self._response: Response | None = None

    def add(self, event: ResponseStreamEvent) -> None:
        if event.type in ("response.completed", "response.incomplete"):
            self._response = event.response
        elif event.type == "response.failed":
            raise _fault_of(event.response)
        elif event.type == "error":
            raise Fault(FaultKind.DROPPED, event.message)
        elif event.type in (
            "response.output_text.delta",
            "response.function_call_arguments.delta",
            "response.reasoning_summary_text.delta",
            "response.refusal.delta",
        ):
            self._room.add(event.delta)

    def reply(self, model: str, *, is_record: bool) -> Reply:
        response = self._response
        if response is None:
            raise Fault(FaultKind.DROPPED, "the stream ended in the middle of the reply")
        calls = tuple(
            ToolCall(id=item.call_id, name=item.name, arguments=item.arguments or "{}")
            for item in response.output
            if item.type == "function_call"
        )
        text, refusal = response.output_text, _refusal(response.output)
        if is_record:
            text = "".join(call.arguments for call in calls) or text
            calls = ()
        stop = _stop(response, refusal)
        return Reply(
            text=refusal or text,
            calls=calls,
            reasoning=_reasoning_text(response.output),
            native="" if is_record or stop != "done" else _native(response.output),
            native_format=FORMAT,
            stop=stop,
            usage=_usage(response.usage),
            model=model,
        )


def _fault_of(response: Response) -> Fault:
    message = response.error.message if response.error else "the response failed"
    if response.error is not None and response.error.code == "rate_limit_exceeded":
        return Fault(FaultKind.BUSY, message)
    kind = kind_of_status(400, message)
    is_overflow = kind is FaultKind.CONTEXT_OVERFLOW
    return Fault(kind if is_overflow else FaultKind.DROPPED, message)


def _stop(response: Response, refusal: str) -> Stop:
    if refusal:
        return "refused"
    if response.status != "incomplete":
        return "done"
    details = response.incomplete_details
    return "refused" if details and details.reason == "content_filter" else "truncated"


def _refusal(output: list[ResponseOutputItem]) -> str:
    return "".join(
        part.refusal
        for item in output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    )


def _reasoning_text(output: list[ResponseOutputItem]) -> str:
    return "\n\n".join(
        part.text for item in output if item.type == "reasoning" for part in item.summary
    )


def _native(output: list[ResponseOutputItem]) -> str:
    return json.dumps([item.model_dump(mode="json", exclude_none=True, exclude={"status"})
                       for item in output])  # fmt: skip


def _usage(reported: ResponseUsage | None) -> Usage:
    if reported is None:
        return Usage(is_estimate=True)
    cached = reported.input_tokens_details.cached_tokens
    return Usage(
        input_tokens=max(reported.input_tokens - cached, 0),
        output_tokens=reported.output_tokens,
        cache_read_tokens=cached,
        reasoning_tokens=reported.output_tokens_details.reasoning_tokens,
    )
