"""The two wire formats as a server speaks them: requests read, streamed replies written."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Style = Literal["tool", "text"]
CHUNK = 400


@dataclass(frozen=True)
class Said:
    """What a scripted model says, and what its server does on the way."""

    text: str
    style: Style = "tool"
    stop: Literal["done", "truncated", "refused"] = "done"
    tool: str = ""
    """Another tool's name than the one that was asked for."""
    output_tokens: int | None = None


@dataclass(frozen=True)
class Heard:
    """A request, whichever format it came in."""

    path: str
    model: str
    system: str
    messages: tuple[tuple[str, str], ...]
    tool: str
    has_schema: bool
    most_tokens: int
    cache_marks: int
    prompt_bytes: int
    authorization: str

    @property
    def text(self) -> str:
        return "\n".join((self.system, *(text for _, text in self.messages)))

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")


def heard(path: str, body: dict, authorization: str, size: int) -> Heard:  # type: ignore[type-arg]
    marks = json.dumps(body).count("cache_control")
    messages = tuple((m["role"], _flat(m["content"])) for m in body["messages"])
    tools = body.get("tools") or []
    if path.endswith("/messages"):
        system = _flat(body.get("system", ""))
        tool = tools[0]["name"] if tools else ""
        has_schema = "output_config" in body
    else:
        system = "\n".join(text for role, text in messages if role == "system")
        messages = tuple(m for m in messages if m[0] != "system")
        tool = tools[0]["function"]["name"] if tools else ""
        has_schema = "response_format" in body
    return Heard(
        path=path,
        model=body["model"],
        system=system,
        messages=messages,
        tool=tool,
        has_schema=has_schema,
        most_tokens=body.get("max_tokens") or body.get("max_completion_tokens") or 0,
        cache_marks=marks,
        prompt_bytes=size,
        authorization=authorization,
    )


def _flat(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


@dataclass(frozen=True)
class Billed:
    """Tokens that the server charges for."""

    input_tokens: int
    output_tokens: int


def billed(request: Heard, said: Said) -> Billed:
    output = said.output_tokens or min(max(len(said.text) // 4, 1), request.most_tokens)
    return Billed(max(request.prompt_bytes // 4, 1), output)


def events(request: Heard, said: Said) -> Iterator[bytes]:
    """The server-sent events of a whole reply."""
    bill = billed(request, said)
    uses_tool = said.style == "tool" and bool(request.tool) and said.stop != "refused"
    name = said.tool or request.tool
    if request.is_anthropic:
        yield from _anthropic_events(request, said, bill, name if uses_tool else "")
    else:
        yield from _openai_events(request, said, bill, name if uses_tool else "")


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, max(len(text), 1), CHUNK):
        yield text[start : start + CHUNK]


def _anthropic_events(request: Heard, said: Said, bill: Billed, tool: str) -> Iterator[bytes]:
    def event(kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    usage = {"input_tokens": bill.input_tokens, "output_tokens": 1}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield event("message_start", message=message)
    yield event("ping")
    if tool:
        block: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
    else:
        block = {"type": "text", "text": ""}
    yield event("content_block_start", index=0, content_block=block)
    for piece in _pieces(said.text):
        delta = (
            {"type": "input_json_delta", "partial_json": piece}
            if tool
            else {"type": "text_delta", "text": piece}
        )
        yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    stop = {"truncated": "max_tokens", "refused": "refusal"}.get(said.stop)
    stop = stop or ("tool_use" if tool else "end_turn")
    yield event(
        "message_delta",
        delta={"stop_reason": stop, "stop_sequence": None},
        usage={"output_tokens": bill.output_tokens},
    )
    yield event("message_stop")


def _openai_events(request: Heard, said: Said, bill: Billed, tool: str) -> Iterator[bytes]:
    def chunk(delta: dict[str, object] | None, finish: str | None = None) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        data: dict[str, object] = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": request.model,
            "choices": choices,
        }
        if delta is None:
            data["usage"] = {
                "prompt_tokens": bill.input_tokens,
                "completion_tokens": bill.output_tokens,
                "total_tokens": bill.input_tokens + bill.output_tokens,
            }
        return f"data: {json.dumps(data)}\n\n".encode()

    yield chunk({"role": "assistant", "content": None if tool else ""})
    for place, piece in enumerate(_pieces(said.text)):
        function: dict[str, str] = {"arguments": piece}
        call: dict[str, object] = {"index": 0, "function": function}
        if place == 0:
            function["name"] = tool
            call |= {"id": "call_1", "type": "function"}
        yield chunk({"tool_calls": [call]} if tool else {"content": piece})
    finish = {"truncated": "length", "refused": "content_filter"}.get(said.stop)
    yield chunk({}, finish or ("tool_calls" if tool else "stop"))
    yield chunk(None)
    yield b"data: [DONE]\n\n"
