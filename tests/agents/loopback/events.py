"""Whole replies as the server-sent events of each wire format."""

import json
from collections.abc import Iterator

from tests.agents.loopback.wire import CHUNK, Billed, Calls, Heard, Said, billed


def events(request: Heard, said: Said) -> Iterator[bytes]:
    """The server-sent events of a whole reply."""
    bill = billed(request, said)
    is_record = said.style == "tool" and bool(request.forced_tool) and said.stop != "refused"
    calls = said.calls
    if is_record:
        calls = (Calls(said.tool or request.forced_tool, said.text),)
    text = "" if is_record else said.text
    if request.is_anthropic:
        yield from _anthropic(request, said, bill, text, calls)
    elif request.is_responses:
        yield from _responses(request, said, bill, text, calls)
    else:
        yield from _chat(request, said, bill, text, calls)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, max(len(text), 1), CHUNK):
        yield text[start : start + CHUNK]


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _anthropic(
    request: Heard, said: Said, bill: Billed, text: str, calls: tuple[Calls, ...]
) -> Iterator[bytes]:
    usage: dict[str, object] = {
        "input_tokens": bill.input_tokens - bill.cached_tokens,
        "cache_read_input_tokens": bill.cached_tokens,
        "output_tokens": 1,
    }
    final: dict[str, object] = {
        "output_tokens": bill.output_tokens,
        "output_tokens_details": {"thinking_tokens": bill.thinking_tokens},
    }
    if said.usage is not None:
        late = {name: told for name, told in said.usage.items() if name.startswith("output")}
        usage, final = {**said.usage, "output_tokens": 1}, late
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
    yield _event("message_start", message=message)
    yield _event("ping")
    blocks: list[tuple[dict[str, object], str, str]] = []
    if said.thinking:
        block: dict[str, object] = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((block, "thinking_delta", said.thinking))
    if text or not calls:
        blocks.append(({"type": "text", "text": ""}, "text_delta", text))
    for number, call in enumerate(calls):
        tool: dict[str, object] = {
            "type": "tool_use",
            "id": f"toolu_{number}" if call.id is None else call.id,
            "name": call.name,
            "input": {},
        }
        blocks.append((tool, "input_json_delta", call.arguments))
    field = {"thinking_delta": "thinking", "text_delta": "text", "input_json_delta": "partial_json"}
    for index, (block, kind, content) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=block)
        for piece in _pieces(content):
            delta = {"type": kind, field[kind]: piece}
            yield _event("content_block_delta", index=index, delta=delta)
        if kind == "thinking_delta":
            signed = {"type": "signature_delta", "signature": "5igned"}
            yield _event("content_block_delta", index=index, delta=signed)
        yield _event("content_block_stop", index=index)
    stop = {"truncated": "max_tokens", "refused": "refusal"}.get(said.stop)
    stop = stop or ("tool_use" if calls else "end_turn")
    yield _event(
        "message_delta",
        delta={"stop_reason": stop, "stop_sequence": None},
        usage=final,
    )
    yield _event("message_stop")


def _chat(
    request: Heard, said: Said, bill: Billed, text: str, calls: tuple[Calls, ...]
) -> Iterator[bytes]:
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
            data["usage"] = said.usage or {
                "prompt_tokens": bill.input_tokens,
                "completion_tokens": bill.output_tokens,
                "total_tokens": bill.input_tokens + bill.output_tokens,
                "prompt_tokens_details": {"cached_tokens": bill.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": bill.thinking_tokens},
            }
        return f"data: {json.dumps(data)}\n\n".encode()

    yield chunk({"role": "assistant", "content": None if calls else ""})
    if said.thinking:
        yield chunk({"reasoning_content": said.thinking})
    if text or not calls:
        for piece in _pieces(text):
            yield chunk({"content": piece})
    for number, call in enumerate(calls):
        for place, piece in enumerate(_pieces(call.arguments)):
            function: dict[str, str] = {"arguments": piece}
            part: dict[str, object] = {"index": number, "function": function}
            if place == 0:
                function["name"] = call.name
                id_ = f"call_{number}" if call.id is None else call.id
                part |= {"id": id_, "type": "function"}
            yield chunk({"tool_calls": [part]})
    finish = {"truncated": "length", "refused": "content_filter"}.get(said.stop)
    yield chunk({}, finish or ("tool_calls" if calls else "stop"))
    yield chunk(None)
    yield b"data: [DONE]\n\n"


def _responses(
    request: Heard, said: Said, bill: Billed, text: str, calls: tuple[Calls, ...]
) -> Iterator[bytes]:
    output: list[dict[str, object]] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        output.append(
            {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "5ealed"}
        )
    if text or not calls:
        kind = "refusal" if said.stop == "refused" else "output_text"
        part: dict[str, object] = {"type": kind, "refusal" if kind == "refusal" else "text": text}
        part |= {"annotations": []} if kind == "output_text" else {}
        output.append(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for number, call in enumerate(calls):
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}" if call.id is None else call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )
    response: dict[str, object] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "in_progress",
    }
    yield _event("response.created", response=response, sequence_number=0)
    for number, piece in enumerate(_pieces(text or "".join(c.arguments for c in calls))):
        yield _event(
            "response.output_text.delta",
            delta=piece,
            content_index=0,
            item_id="msg_1",
            output_index=0,
            logprobs=[],
            sequence_number=number + 1,
        )
    for place, item in enumerate(output):
        yield _event(
            "response.output_item.done", item=item, output_index=place, sequence_number=9000 + place
        )
    usage = said.usage or {
        "input_tokens": bill.input_tokens,
        "input_tokens_details": {"cached_tokens": bill.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": bill.output_tokens,
        "output_tokens_details": {"reasoning_tokens": bill.thinking_tokens},
        "total_tokens": bill.input_tokens + bill.output_tokens,
    }
    is_cut = said.stop == "truncated"
    response |= {
        "output": output,
        "usage": usage,
        "status": "incomplete" if is_cut else "completed",
    }
    if is_cut:
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    kind = "response.incomplete" if is_cut else "response.completed"
    yield _event(kind, response=response, sequence_number=9999)
