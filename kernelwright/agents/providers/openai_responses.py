"""OpenAI's Responses format through the official SDK: reasoning kept from turn to turn."""

import hashlib
import json
from collections.abc import Sequence
from typing import cast

from openai.types.responses import (
    FunctionToolParam,
    Response,
    ResponseInputItemParam,
    ResponseOutputItem,
    ResponseReasoningItem,
    ResponseStreamEvent,
    ResponseUsage,
)
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_format_text_json_schema_config_param import (
    ResponseFormatTextJSONSchemaConfigParam,
)
from openai.types.responses.response_reasoning_item import Content, Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from openai.types.shared_params import Reasoning

from kernelwright.agents.message import (
    Prompt,
    Reply,
    Stop,
    ToolCall,
    Turn,
    Usage,
    echoed,
    echoed_arguments,
)
from kernelwright.agents.providers.client import (
    Endpoint,
    Limits,
    Receipt,
    ReplyMode,
    ReplyShape,
    Text,
)
from kernelwright.agents.providers.fault import CUT_SHORT, EMPTY, Fault, FaultKind, kind_of_status
from kernelwright.agents.providers.openai_sdk import OpenAIClient, watched
from kernelwright.agents.providers.reported import UNREPORTED, Reported
from kernelwright.agents.providers.sdk_client import reply_timeouts, stream_switch
from kernelwright.agents.providers.tool_call import legal_arguments, made_call

FORMAT = "openai-responses"
_WORDS = {
    "cache key": ("prompt_cache_key",),
    "stream": ("stream",),
    "summary": ("reasoning.summary", "summary"),
    "encrypted": ("encrypted", "include"),
    "effort": ("reasoning.effort", "effort"),
    "reasoning": ("reasoning",),
    "schema": ("text.format", "json_schema", "schema"),
    "tools": ("tool", "function"),
}


class OpenAIResponsesClient(OpenAIClient):
    """The Responses API, nothing kept by the server; gives up what a model refuses."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits, _WORDS)

    def _in_use(self, prompt: Prompt, shape: ReplyShape | None) -> set[str]:
        """Choose which features this request asks for."""
        wanted = {"cache key", "stream"}
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

    async def _exchange(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        in_use: set[str],
        receipt: Receipt,
    ) -> Reply:
        gathered = GatheredResponse(limits)
        parameters = self._parameters(prompt, shape, limits, in_use)
        stream = await self._client.responses.create(
            **parameters,
            stream=True,
            extra_body=stream_switch(in_use),
            timeout=reply_timeouts(limits, in_use, read_s=limits.first_event_s),
        )
        async with stream:
            if (body := await self._at_once(stream.response, "output")) is not None:
                gathered.take(Response.construct(None, **body))
            else:
                async for event in watched(aiter(stream), limits):
                    gathered.add(event)
        return gathered.reply(self.name, turn=len(prompt.turns), is_record=shape is not None)

    def _parameters(
        self, prompt: Prompt, shape: ReplyShape | None, limits: Limits, in_use: set[str]
    ) -> ResponseCreateParamsBase:
        """Return a request with the features that it asks for."""
        parameters: ResponseCreateParamsBase = {
            "model": self._endpoint.model,
            "instructions": prompt.system,
            "input": _items(prompt),
            "max_output_tokens": limits.output_tokens,
            "store": False,
        }
        tools = [_tool(t.name, t.description, t.json_schema) for t in prompt.tools]
        if shape is not None and "schema" in in_use:
            parameters["text"] = {"format": _format(shape)}
        elif shape is not None and "tools" in in_use:
            tools = [_tool(shape.name, shape.description, shape.json_schema)]
            parameters["tool_choice"] = {"type": "function", "name": shape.name}
        if tools:
            parameters["tools"] = tools
        if reasoning := self._reasoning(in_use):
            parameters["reasoning"] = reasoning
        if "encrypted" in in_use:
            parameters["include"] = ["reasoning.encrypted_content"]
        if "cache key" in in_use:
            parameters["prompt_cache_key"] = _cache_key(prompt)
        return parameters

    def _reasoning(self, in_use: set[str]) -> Reasoning:
        reasoning: Reasoning = {}
        if "effort" in in_use:
            reasoning["effort"] = self._endpoint.effort
        if "summary" in in_use:
            reasoning["summary"] = "auto"
        return reasoning


def _cache_key(prompt: Prompt) -> str:
    """Name the prefix that calls on one task share, so that one machine gets them all."""
    return hashlib.sha256(f"{prompt.system}\0{prompt.context}".encode()).hexdigest()[:32]


def _format(shape: ReplyShape) -> ResponseFormatTextJSONSchemaConfigParam:
    return {
        "type": "json_schema",
        "name": shape.name,
        "schema": shape.json_schema,
        "strict": True,
    }


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
    for turn in prompt.history:
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
            "arguments": legal_arguments(call.arguments),
        }
        items.append(item)
    return items


class GatheredResponse:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self._room = Text(limits.reply_bytes)
        self._response: Response | None = None
        self._items: dict[int, ResponseOutputItem] = {}
        self._has_begun = False

    def take(self, response: Response) -> None:
        """Take in a response that is over.

        Raises:
            Fault: it failed.
        """
        if response.status == "failed":
            raise _fault_of(response)
        self._response = response

    def add(self, event: ResponseStreamEvent) -> None:
        """Take in an event of the stream."""
        self._has_begun = True
        if event.type == "response.failed":
            # By its event: other servers than OpenAI's leave the status out.
            raise _fault_of(event.response)
        if event.type in ("response.completed", "response.incomplete"):
            self.take(event.response)
        elif event.type == "response.output_item.done":
            self._items[event.output_index] = event.item
        elif event.type == "error":
            raise Fault(FaultKind.DROPPED, event.message)
        elif event.type in (
            "response.output_text.delta",
            "response.function_call_arguments.delta",
            "response.reasoning_summary_text.delta",
            "response.refusal.delta",
        ):
            self._room.add(event.delta)

    def reply(self, model: str, *, turn: int, is_record: bool) -> Reply:
        """Return the whole reply, which is that turn of its conversation.

        Raises:
            Fault: the stream ended before it was there.
        """
        response = self._response
        if response is None:
            if not self._has_begun:
                raise Fault(FaultKind.UNREADABLE, EMPTY)
            raise Fault(FaultKind.DROPPED, CUT_SHORT)
        # Some servers leave out of the end what came as events before it.
        output = response.output or [item for _, item in sorted(self._items.items())]
        calls = _calls(output, turn)
        text, refusal = _text(output), _refusal(output)
        if is_record:
            text = "".join(call.arguments for call in calls) or text
            calls = ()
        stop = _stop(response, refusal)
        return Reply(
            text=refusal or text,
            calls=calls,
            reasoning=_reasoning_text(output),
            native="" if is_record or stop != "done" else _native(output),
            native_format=FORMAT,
            stop=stop,
            usage=_usage(response.usage),
            model=model,
        )


def _calls(output: list[ResponseOutputItem], turn: int) -> tuple[ToolCall, ...]:
    """Return the calls, written in their items too as the conversation writes them."""
    calls: list[ToolCall] = []
    for item in output:
        if item.type == "function_call":
            call = made_call(turn, len(calls), item.name or "", item.arguments or "")
            item.call_id, item.name = call.id, call.name
            item.arguments = legal_arguments(call.arguments)
            calls.append(call)
    return tuple(calls)


def _fault_of(response: Response) -> Fault:
    message = response.error.message if response.error else "the response failed"
    code = response.error.code if response.error else ""
    usage = _usage(response.usage)
    # The response is over: what it reports is its bill.
    is_bill = usage.total_tokens > 0
    if code == "rate_limit_exceeded":
        return Fault(FaultKind.BUSY, message, usage=usage, is_bill=is_bill)
    kind = kind_of_status(400, f"{code}: {message}")
    is_known = kind in (FaultKind.CONTEXT_OVERFLOW, FaultKind.REFUSED_PROMPT)
    kind = kind if is_known else FaultKind.DROPPED
    return Fault(kind, message, usage=usage if is_bill else None, is_bill=is_bill)


def _stop(response: Response, refusal: str) -> Stop:
    if refusal:
        return "refused"
    if response.status != "incomplete":
        return "done"
    details = response.incomplete_details
    return "refused" if details and details.reason == "content_filter" else "truncated"


def _text(output: list[ResponseOutputItem]) -> str:
    return "".join(
        part.text or ""
        for item in output
        if item.type == "message"
        for part in item.content
        if part.type == "output_text"
    )


def _refusal(output: list[ResponseOutputItem]) -> str:
    return "".join(
        part.refusal
        for item in output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    )


def _reasoning_text(output: list[ResponseOutputItem]) -> str:
    thoughts = (item for item in output if item.type == "reasoning")
    return "\n\n".join(part.text for item in thoughts for part in _thought_parts(item))


def _thought_parts(item: ResponseReasoningItem) -> Sequence[Summary | Content]:
    # Servers of open models send the thoughts themselves, and may leave the summary out.
    summary: Sequence[Summary] | None = getattr(item, "summary", None)
    return summary or item.content or ()


def _native(output: list[ResponseOutputItem]) -> str:
    items = [
        item.model_dump(mode="json", exclude_none=True, warnings=False, exclude={"status"})
        for item in output
    ]
    for item in items:
        if item["type"] == "function_call":
            item["arguments"] = echoed_arguments(item["arguments"])
        elif item["type"] == "message":
            for part in item["content"]:
                part |= {name: echoed(part[name]) for name in ("text", "refusal") if name in part}
    return json.dumps(items)


def _usage(reported: ResponseUsage | None) -> Usage:
    if reported is None:
        return UNREPORTED
    # Other servers than OpenAI's leave details out, which the SDK does not check.
    read: InputTokensDetails | None = reported.input_tokens_details
    thought: OutputTokensDetails | None = reported.output_tokens_details
    return Reported(
        prompt=reported.input_tokens,
        output=reported.output_tokens,
        cached=getattr(read, "cached_tokens", None),
        written=getattr(read, "cache_write_tokens", None),
        reasoning=getattr(thought, "reasoning_tokens", None),
    ).usage
