"""OpenAI's Chat Completions format through the official SDK, for any server that speaks it."""

import json
from collections.abc import Mapping
from typing import cast

import openai
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionChunk,
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
    ChatCompletionToolChoiceOptionParam,
)
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
from openai.types.completion_usage import CompletionUsage
from openai.types.shared_params import FunctionDefinition, ResponseFormatJSONSchema

from kernelwright.agents.message import Prompt, Reply, Stop, Turn, Usage
from kernelwright.agents.providers.client import (
    Endpoint,
    Limits,
    Receipt,
    ReplyMode,
    ReplyShape,
    Text,
)
from kernelwright.agents.providers.fault import CUT_SHORT, EMPTY, Fault, FaultKind
from kernelwright.agents.providers.openai_sdk import OpenAIClient, watched
from kernelwright.agents.providers.output_limit import Asked
from kernelwright.agents.providers.reported import UNREPORTED, Reported
from kernelwright.agents.providers.sdk_client import reply_timeouts, stream_switch
from kernelwright.agents.providers.tool_call import is_object, legal_arguments, made_call

_WORDS = {
    "usage": ("stream_options", "include_usage"),
    "stream": ("stream",),
    "effort": ("reasoning_effort", "reasoning"),
    "strict": ("strict",),
    "new limit": ("max_completion_tokens",),
    "old limit": ("max_tokens",),
    "schema": ("response_format", "json_schema", "schema", "grammar"),
    "tools": ("tool", "function"),
    "system": ("system", "role"),
}
_THOUGHTS = ("reasoning_content", "reasoning")
"""What vLLM, LM Studio and Ollama call a model's thinking."""


class OpenAIChatClient(OpenAIClient):
    """Chat Completions; gives up what a server refuses: usage in streams, schemas, tools."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits, _WORDS)
        # OpenAI's reasoning models refuse the old name, most local servers know no other.
        self._uses_old_limit = endpoint.base_url is not None

    def _in_use(self, prompt: Prompt, shape: ReplyShape | None) -> set[str]:
        """Choose which features this request asks for."""
        in_use = {f for f in ("usage", "stream", "system") if f in self._features}
        if "stream" not in in_use:
            # Only of streams it has to be asked for.
            in_use.discard("usage")
        if self._endpoint.effort is not None and "effort" in self._features:
            in_use.add("effort")
        if shape is not None and self.mode is ReplyMode.SCHEMA:
            in_use.add("schema")
        elif (shape is not None or prompt.tools) and "tools" in self._features:
            in_use.add("tools")
        if {"schema", "tools"} & in_use and "strict" in self._features:
            in_use.add("strict")
        in_use.add("old limit" if self._uses_old_limit else "new limit")
        return in_use

    async def _exchange(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        in_use: set[str],
        receipt: Receipt,
    ) -> Reply:
        gathered = _Gathered(limits)
        tools, choice = _tools(prompt, shape, in_use)
        most, effort = limits.output_tokens, self._endpoint.effort
        stream = await self._client.chat.completions.create(
            model=self._endpoint.model,
            messages=_messages(prompt, has_system="system" in in_use),
            max_tokens=most if "old limit" in in_use else openai.omit,
            max_completion_tokens=most if "new limit" in in_use else openai.omit,
            tools=tools or openai.omit,
            tool_choice=choice or openai.omit,
            response_format=(
                _format(shape, in_use) if shape and "schema" in in_use else openai.omit
            ),
            reasoning_effort=effort if "effort" in in_use else openai.omit,
            stream_options={"include_usage": True} if "usage" in in_use else openai.omit,
            stream=True,
            extra_body=stream_switch(in_use),
            timeout=reply_timeouts(limits, in_use, read_s=limits.first_event_s),
        )
        async with stream:
            if (body := await self._at_once(stream.response, "choices")) is not None:
                gathered.take(body)
            else:
                async for chunk in watched(aiter(stream), limits):
                    gathered.add(chunk)
        return gathered.reply(self.name, turn=len(prompt.turns), is_record=shape is not None)

    def _status_fault(self, error: openai.APIStatusError, asked: Asked) -> Fault:
        fault = super()._status_fault(error, asked)
        refused = "old limit" if self._uses_old_limit else "new limit"
        if fault.kind is FaultKind.UNSUPPORTED and refused not in self._features:
            other = "new limit" if self._uses_old_limit else "old limit"
            if other not in self._features:
                fault.kind = FaultKind.BAD_REQUEST
            self._uses_old_limit = not self._uses_old_limit
        return fault


def _format(shape: ReplyShape, in_use: set[str]) -> ResponseFormatJSONSchema:
    return {
        "type": "json_schema",
        "json_schema": {
            "name": shape.name,
            "schema": shape.json_schema,
            "strict": "strict" in in_use,
        },
    }


def _tools(
    prompt: Prompt, shape: ReplyShape | None, in_use: set[str]
) -> tuple[list[ChatCompletionFunctionToolParam], ChatCompletionToolChoiceOptionParam | None]:
    """Return the tools of a conversation, or the one that a record has to be written with."""
    if "tools" not in in_use:
        return [], None
    is_strict = "strict" in in_use
    if shape is not None:
        tool = _tool(shape.name, shape.description, shape.json_schema, is_strict=is_strict)
        return [tool], {"type": "function", "function": {"name": shape.name}}
    return [
        _tool(t.name, t.description, t.json_schema, is_strict=is_strict) for t in prompt.tools
    ], "auto"


def _tool(
    name: str, description: str, schema: dict[str, object], *, is_strict: bool
) -> ChatCompletionFunctionToolParam:
    function: FunctionDefinition = {
        "name": name,
        "description": description,
        "parameters": schema,
    }
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


class _Call:
    """A tool call as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self.id = ""
        self.name = ""
        self.arguments = Text(limits.reply_bytes)

    @property
    def is_whole(self) -> bool:
        """True where its arguments are the whole JSON of an object, so that another call begins."""
        text = str(self.arguments)
        return text.rstrip().endswith("}") and is_object(text)


def _as_json(arguments: object) -> str:
    """Return a call's arguments as text; some servers send the object itself."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments)


def _as_chunk(choice: Mapping[str, object]) -> dict[str, object]:
    """Return a whole choice as the piece of a stream: calls are numbered there."""
    message = cast("dict[str, object]", choice["message"])
    told = cast("list[dict[str, object]]", message.get("tool_calls") or [])
    calls = [{**call, "index": place} for place, call in enumerate(told)]
    # Some servers leave out why a reply that is whole ends.
    finish = choice.get("finish_reason") or "stop"
    return {**choice, "delta": {**message, "tool_calls": calls}, "finish_reason": finish}


def _as_text(content: object) -> str:
    """Return what is said; some servers send it in parts, as requests may."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text") or "") for part in _parts(content))


def _thought(content: object) -> str:
    """Return what parts of a message hold of a model's thinking, as Mistral's API sends it."""
    thoughts = (part.get("thinking") for part in _parts(content))
    return "".join(_as_text(thought) for thought in thoughts)


def _parts(content: object) -> list[dict[str, object]]:
    found = content if isinstance(content, list) else []
    return [part for part in found if isinstance(part, dict)]


class _Gathered:
    """A reply as far as it has arrived."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.text = Text(limits.reply_bytes)
        self.thoughts = Text(limits.reply_bytes)
        self.calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        """The last call of each number."""
        self.refusal = Text(limits.reply_bytes)
        self.usage: CompletionUsage | None = None
        self.finish_reason: str | None = None
        self.has_begun = False

    def take(self, body: Mapping[str, object]) -> None:
        """Take in a reply that came at once, as a stream of one chunk."""
        choices = cast("list[dict[str, object]]", body["choices"])
        one = {**body, "choices": [_as_chunk(choice) for choice in choices[:1]]}
        self.add(ChatCompletionChunk.construct(None, **one))

    def add(self, chunk: ChatCompletionChunk) -> None:
        self.has_begun = True
        self.usage = chunk.usage or self.usage
        # Some servers report the usage in a chunk without choices.
        for choice in chunk.choices or ():
            self.finish_reason = choice.finish_reason or self.finish_reason
            self._grow(choice.delta)

    def _grow(self, delta: ChoiceDelta) -> None:
        self.text.add(_as_text(delta.content))
        self.refusal.add(delta.refusal or "")
        extra = delta.model_extra or {}
        thought = next((extra[name] for name in _THOUGHTS if extra.get(name)), "")
        self.thoughts.add((thought if isinstance(thought, str) else "") or _thought(delta.content))
        for piece in delta.tool_calls or ():
            call = self._call_of(piece)
            call.id = piece.id or call.id
            if piece.function is not None:
                call.name = piece.function.name or call.name
                call.arguments.add(_as_json(piece.function.arguments))

    def _call_of(self, piece: ChoiceDeltaToolCall) -> _Call:
        """Return the call that a piece belongs to, a new one where a server counts none."""
        known = self._open.get(piece.index)
        is_named = piece.function is not None and bool(piece.function.name)
        if (
            known is None
            or (piece.id and known.id and piece.id != known.id)
            or (is_named and known.is_whole)
        ):
            known = self._open[piece.index] = _Call(self._limits)
            self.calls.append(known)
        return known

    def reply(self, model: str, *, turn: int, is_record: bool) -> Reply:
        if self.finish_reason is None:
            if not self.has_begun:
                raise Fault(FaultKind.UNREADABLE, EMPTY)
            raise Fault(FaultKind.DROPPED, CUT_SHORT)
        calls = tuple(
            made_call(turn, place, call.name, str(call.arguments))
            for place, call in enumerate(self.calls)
        )
        text = str(self.text)
        if is_record:
            text = "".join(call.arguments for call in calls) or text
            calls = ()
        refusal = str(self.refusal)
        stop: Stop = "refused" if refusal else _STOPS.get(self.finish_reason, "done")
        return Reply(
            text=refusal or text,
            calls=calls,
            reasoning=str(self.thoughts),
            stop=stop,
            usage=_usage(self.usage),
            model=model,
        )


_STOPS: dict[str, Stop] = {"length": "truncated", "content_filter": "refused"}


def _usage(reported: CompletionUsage | None) -> Usage:
    if reported is None:
        return UNREPORTED
    details, thought = reported.prompt_tokens_details, reported.completion_tokens_details
    return Reported(
        prompt=reported.prompt_tokens,
        output=reported.completion_tokens,
        cached=details.cached_tokens if details else None,
        written=details.cache_write_tokens if details else None,
        reasoning=thought.reasoning_tokens if thought else None,
    ).usage


def _messages(prompt: Prompt, *, has_system: bool) -> list[ChatCompletionMessageParam]:
    """Return the conversation; some models' templates know no system's role."""
    parts = [part for part in (prompt.context, prompt.request) if part]
    messages: list[ChatCompletionMessageParam] = []
    if has_system:
        messages.append({"role": "system", "content": prompt.system})
    else:
        parts.insert(0, prompt.system)
    messages.append({"role": "user", "content": "\n\n".join(parts)})
    for turn in prompt.history:
        messages += [_assistant(turn)] if turn.speaker == "assistant" else _user(turn)
    return messages


def _assistant(turn: Turn) -> ChatCompletionAssistantMessageParam:
    message: ChatCompletionAssistantMessageParam = {"role": "assistant"}
    if turn.text or not turn.calls:
        message["content"] = turn.text or "(nothing)"
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": legal_arguments(call.arguments)},
            }
            for call in turn.calls
        ]
    return message


def _user(turn: Turn) -> list[ChatCompletionMessageParam]:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in turn.results
    ]
    if turn.text or not turn.results:
        messages.append({"role": "user", "content": turn.text or "(nothing)"})
    return messages
