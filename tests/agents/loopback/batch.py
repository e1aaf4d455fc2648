"""Both providers' batches: requests in, results as files, after a look or two."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.agents.loopback.events import events
from tests.agents.loopback.wire import Body, Heard, Said, billed

_PARTS = ("/messages/batches", "/files", "/batches")


def is_about_batches(path: str) -> bool:
    return any(part in path for part in _PARTS)


@dataclass(frozen=True)
class Batched:
    """A request of a batch and what came of it: a reply, or the words of a refusal."""

    request: Heard
    said: Said | None
    refusal: str = ""


@dataclass
class Batches:
    """What a server keeps of batches; each is in progress at the first look."""

    answer: Callable[[str, Body], Batched]
    root: Callable[[], str]
    sizes: list[int] = field(default_factory=list)
    """How many requests came together."""
    loses: int = 0
    """How many of the next batch's requests expire."""
    failing_looks: int = 0
    """How many of the next looks at a batch meet a broken connection."""
    is_held_up: bool = False
    """True while no batch comes to its end."""
    refusal: dict[str, str] = field(default_factory=dict)
    """Code and words with which every batch is refused as a whole; only OpenAI does that."""
    _looks: dict[str, int] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, data: bytes) -> str:
        if path.endswith("/messages/batches"):
            lines = [self._message(r) for r in json.loads(data)["requests"]]
            return json.dumps(self._begun(lines, self._anthropic))
        if path.endswith("/files"):
            text = data.split(b"\r\n\r\n", 1)[1] if b"requests.jsonl" not in data else data
            start = text.index(b'{"custom_id"')
            self._files["input"] = text[start : text.rindex(b"}") + 1].decode()
            return json.dumps({"id": "input", "object": "file", "bytes": 1, "created_at": 1,
                               "filename": "requests.jsonl", "purpose": "batch",
                               "status": "processed"})  # fmt: skip
        if path.endswith("/cancel"):
            return json.dumps(self._anthropic("batch_0", "canceling"))
        rows = [json.loads(line) for line in self._files["input"].splitlines()]
        return json.dumps(self._begun([self._response(row) for row in rows], self._openai))

    def get(self, path: str) -> str:
        if path.endswith(("/results", "/content")):
            return self._files[path.split("/")[-2]]
        batch = path.split("/")[-1]
        self._looks[batch] += 1
        is_over = self._looks[batch] > 1 and not self.is_held_up
        if "/messages/" in path:
            return json.dumps(self._anthropic(batch, "ended" if is_over else "in_progress"))
        if self.refusal:
            errors = {"object": "list", "data": [self.refusal]}
            return json.dumps(self._openai(batch, "failed") | {"errors": errors})
        return json.dumps(self._openai(batch, "completed" if is_over else "in_progress"))

    def _begun(self, lines: list[str], shown: Callable[[str, str], Body]) -> Body:
        batch = f"batch_{len(self.sizes)}"
        self.sizes.append(len(lines))
        self._looks[batch] = 0
        self._files[batch] = "\n".join(lines)
        return shown(batch, "in_progress")

    def _anthropic(self, batch: str, status: str) -> Body:
        counts = dict.fromkeys(("canceled", "errored", "expired", "processing", "succeeded"), 0)
        moment = "2026-01-01T00:00:00Z"
        return {
            "id": batch,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": counts,
            "created_at": moment,
            "expires_at": moment,
            "results_url": f"{self.root()}/v1/messages/batches/{batch}/results",
        }

    @staticmethod
    def _openai(batch: str, status: str) -> Body:
        return {
            "id": batch,
            "object": "batch",
            "completion_window": "24h",
            "created_at": 1,
            "endpoint": "/v1/responses",
            "input_file_id": "input",
            "output_file_id": batch,
            "status": status,
        }

    def _message(self, asked: Body) -> str:
        if self.loses:
            self.loses -= 1
            return json.dumps({"custom_id": asked["custom_id"], "result": {"type": "expired"}})
        found = self.answer("/v1/messages", asked["params"])
        if found.said is None:
            error = {"type": "invalid_request_error", "message": found.refusal}
            result: Body = {"type": "errored", "error": {"type": "error", "error": error}}
        else:
            result = {"type": "succeeded", "message": whole_message(found.request, found.said)}
        return json.dumps({"custom_id": asked["custom_id"], "result": result})

    def _response(self, asked: Body) -> str:
        if self.loses:
            self.loses -= 1
            error = {"code": "batch_expired", "message": "This request could not be executed."}
            return json.dumps({"custom_id": asked["custom_id"], "response": None, "error": error})
        found = self.answer("/v1/responses", asked["body"])
        if found.said is None:
            body: Body = {"error": {"message": found.refusal}}
        else:
            last = list(events(found.request, found.said))[-1].decode()
            body = json.loads(last.split("data: ", 1)[1])["response"]
        status = 400 if found.said is None else 200
        response = {"status_code": status, "request_id": "r", "body": body}
        return json.dumps({"id": "x", "custom_id": asked["custom_id"], "response": response,
                           "error": None})  # fmt: skip


def whole_message(request: Heard, said: Said) -> Body:
    """A reply of the Messages API that did not come as a stream."""
    bill = billed(request, said)
    content: list[Body] = []
    if said.thinking:
        block = {"type": "thinking", "thinking": said.thinking, "signature": "5igned"}
        content.append(block)
    if said.text or not said.calls:
        content.append({"type": "text", "text": said.text})
    for number, call in enumerate(said.calls):
        tool = {"type": "tool_use", "id": f"toolu_{number}", "name": call.name}
        content.append({**tool, "input": json.loads(call.arguments)})
    stop = {"truncated": "max_tokens", "refused": "refusal"}.get(said.stop)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop or ("tool_use" if said.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": bill.input_tokens - bill.cached_tokens,
            "cache_read_input_tokens": bill.cached_tokens,
            "output_tokens": bill.output_tokens,
        },
    }
