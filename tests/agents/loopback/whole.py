"""Whole replies as one JSON object of each wire format, from servers that do not stream."""

import json
from collections.abc import Iterator

from tests.agents.loopback.events import events
from tests.agents.loopback.wire import Body, Heard, Said


def at_once(request: Heard, said: Said) -> Body:
    """What a reply's events add up to."""
    told = [*_objects(b"".join(events(request, said)).decode())]
    if request.is_responses:
        response: Body = told[-1]["response"]
        return response
    return _message(told) if request.is_anthropic else _completion(told)


def _objects(stream: str) -> Iterator[Body]:
    for line in stream.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _message(told: list[Body]) -> Body:
    blocks: dict[int, Body] = {}
    written: dict[int, str] = {}
    for event in told:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if "partial_json" in delta:
                piece = delta["partial_json"]
                written[event["index"]] = written.get(event["index"], "") + piece
                continue
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    blocks[event["index"]][name] += delta[name]
    for index, text in written.items():
        blocks[index]["input"] = json.loads(text)
    message, end = told[0]["message"], told[-2]
    usage = {**message["usage"], **end["usage"]}
    return {**message, **end["delta"], "content": [*blocks.values()], "usage": usage}


def _completion(told: list[Body]) -> Body:
    message: Body = {"role": "assistant", "content": None}
    calls: list[Body] = []
    finish = None
    for choice in (choice for chunk in told for choice in chunk["choices"]):
        finish = choice["finish_reason"] or finish
        for name in ("content", "reasoning_content"):
            if choice["delta"].get(name):
                message[name] = (message.get(name) or "") + choice["delta"][name]
        for piece in choice["delta"].get("tool_calls") or ():
            if "id" in piece:
                calls.append({"id": piece["id"], "type": "function", "function": piece["function"]})
            else:
                calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**told[0], "object": "chat.completion", "choices": [choice], "usage": told[-1]["usage"]}
