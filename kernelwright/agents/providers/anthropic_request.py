"""A prompt in the format of Anthropic's Messages API, with its cache breakpoints."""

import json
from dataclasses import dataclass, field
from typing import Literal, cast

from anthropic.types import (
    CacheControlEphemeralParam,
    ContentBlockParam,
    MessageParam,
    TextBlockParam,
    ToolChoiceParam,
    ToolParam,
)

from kernelwright.agents.message import Prompt, Turn
from kernelwright.agents.providers.client import ReplyShape
from kernelwright.agents.providers.tool_call import object_of

FORMAT = "anthropic"
_Ttl = Literal["5m", "1h"]


@dataclass
class Request:
    """A prompt in Anthropic's format, with the features that it asks for."""

    prompt: Prompt
    shape: ReplyShape | None = None
    in_use: set[str] = field(default_factory=set)

    @property
    def forces_tool(self) -> bool:
        """True where the record has to be written with one tool."""
        return self.shape is not None and "tools" in self.in_use

    @property
    def ttl(self) -> _Ttl:
        """How long what is marked stays in the cache."""
        return "1h" if "hour" in self.in_use else "5m"

    @property
    def tools(self) -> list[ToolParam]:
        """The tools that the model may call."""
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
        """Which of them it has to call; None where there are none."""
        if self.shape is not None and self.forces_tool:
            return {"type": "tool", "name": self.shape.name, "disable_parallel_tool_use": True}
        return {"type": "auto"} if "tools" in self.in_use else None

    @property
    def messages(self) -> list[MessageParam]:
        """The opening and all turns, the prefixes that stay the same marked for the cache."""
        prompt = self.prompt
        opening: list[TextBlockParam] = []
        if prompt.context:
            opening.append(cached(prompt.context, self.ttl))
        opening.append({"type": "text", "text": prompt.request})
        messages: list[MessageParam] = [{"role": "user", "content": opening}]
        last = len(prompt.turns) - 1
        for place, turn in enumerate(prompt.history):
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


def cached(text: str, ttl: _Ttl) -> TextBlockParam:
    """Return a text at which a cached prefix ends."""
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
            "input": object_of(call.arguments),
        }
        blocks.append(block)
    return blocks
