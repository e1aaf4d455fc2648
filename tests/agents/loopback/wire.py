"""Requests and replies of a scripted model, whichever wire format carries them."""

import json
from dataclasses import dataclass
from typing import Any, Literal

Style = Literal["tool", "text"]
CHUNK = 400
Body = dict[str, Any]


@dataclass(frozen=True)
class Calls:
    """One tool that a scripted model calls."""

    name: str
    arguments: str
    """JSON, or whatever the model takes for it."""
    id: str | None = None
    """What the server calls it, where that is not one number higher than the last."""

    @classmethod
    def of(cls, name: str, **arguments: object) -> "Calls":
        return cls(name, json.dumps(arguments))


@dataclass(frozen=True)
class Said:
    """What a scripted model says, and what its server does on the way."""

    text: str = ""
    style: Style = "tool"
    stop: Literal["done", "truncated", "refused"] = "done"
    tool: str = ""
    """Another tool's name than the one that was asked for."""
    output_tokens: int | None = None
    calls: tuple[Calls, ...] = ()
    """Tools of a conversation that it calls after its text."""
    thinking: str = ""
    usage: dict[str, object] | None = None
    """What the server reports, word for word, instead of what it would count."""


@dataclass(frozen=True)
class Heard:
    """A request, whichever format it came in."""

    path: str
    model: str
    system: str
    messages: tuple[tuple[str, str], ...]
    forced_tool: str
    tools: tuple[str, ...]
    has_schema: bool
    thinks: bool
    effort: str
    most_tokens: int
    cache_marks: int
    cached_share: float
    """Of the prompt: what the provider's cache holds, by its own rules."""
    prompt_bytes: int
    authorization: str
    body: str

    @property
    def tool(self) -> str:
        """The one tool that the reply has to be written with."""
        return self.forced_tool

    @property
    def text(self) -> str:
        return "\n".join((self.system, *(text for _, text in self.messages)))

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def is_responses(self) -> bool:
        return self.path.endswith("/responses")


def heard(path: str, body: Body, authorization: str, size: int, cached: float = 0.0) -> Heard:
    if path.endswith("/responses"):
        body = _as_chat(body)
    messages = tuple((m["role"], _message(m)) for m in body["messages"])
    tools = [t.get("function", t)["name"] for t in body.get("tools") or ()]
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") in ("tool", "function")
    output = body.get("output_config") or {}
    if path.endswith("/messages"):
        system = _flat(body.get("system", ""))
    else:
        system = "\n".join(text for role, text in messages if role == "system")
        messages = tuple(m for m in messages if m[0] != "system")
    return Heard(
        path=path,
        model=body["model"],
        system=system,
        messages=messages,
        forced_tool=tools[0] if forced else "",
        tools=tuple(tools),
        has_schema="format" in output or "response_format" in body,
        thinks="thinking" in body or "reasoning" in body,
        effort=output.get("effort") or body.get("reasoning_effort") or "",
        most_tokens=body.get("max_tokens") or body.get("max_completion_tokens") or 0,
        cache_marks=json.dumps(body).count('"cache_control"'),
        cached_share=cached,
        prompt_bytes=size,
        authorization=authorization,
        body=json.dumps(body),
    )


def _as_chat(body: Body) -> Body:
    """The Responses format's fields under the names of Chat Completions."""
    messages = [{"role": "system", "content": body.get("instructions") or ""}]
    for item in body["input"]:
        role = item.get("role") or ("user" if item["type"].endswith("_output") else "assistant")
        messages.append({**item, "role": role, "content": item.get("content", item)})
    chat = {**body, "messages": messages, "max_tokens": body.get("max_output_tokens")}
    if "format" in (body.get("text") or {}):
        chat["response_format"] = body["text"]["format"]
    effort = (body.get("reasoning") or {}).get("effort")
    return chat | ({"reasoning_effort": effort} if effort else {})


def _message(message: Body) -> str:
    said = _flat(message.get("content") or "")
    calls = [c["function"] for c in message.get("tool_calls") or ()]
    return "\n".join(
        part for part in (said, *(f"{c['name']} {c['arguments']}" for c in calls)) if part
    )


def _flat(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    assert isinstance(content, list)
    return "\n".join(_part(part) for part in content)


def _part(part: Body) -> str:
    for name in ("text", "thinking", "output"):
        if isinstance(part.get(name), str):
            return str(part[name])
    if "content" in part:
        return _flat(part["content"])
    return json.dumps(part)


@dataclass(frozen=True)
class Billed:
    """Tokens that the server charges for."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    thinking_tokens: int = 0


def billed(request: Heard, said: Said) -> Billed:
    written = len(said.text) + sum(len(c.arguments) + len(c.name) for c in said.calls)
    thought = len(said.thinking) // 4
    output = said.output_tokens or min(max(written // 4, 1) + thought, request.most_tokens)
    prompt = max(request.prompt_bytes // 4, 1)
    return Billed(prompt, output, int(prompt * request.cached_share), min(thought, output))
