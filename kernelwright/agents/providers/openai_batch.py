"""OpenAI's models through its Batch API: the Responses format in files, at half the price."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel, Field, JsonValue, ValidationError

from kernelwright.agents.message import Prompt, Reply
from kernelwright.agents.providers.batch import BatchQueue
from kernelwright.agents.providers.client import Endpoint, Limits, Receipt, ReplyShape
from kernelwright.agents.providers.fault import Fault, FaultKind
from kernelwright.agents.providers.openai_responses import GatheredResponse, OpenAIResponsesClient
from kernelwright.agents.providers.output_limit import Asked
from kernelwright.agents.providers.sdk_client import code_in

_PATH: Final = "/v1/responses"
_OVER = frozenset({"completed", "failed", "expired", "cancelled"})


class _Answer(BaseModel):
    """What a request would have been answered by itself."""

    status_code: int = 0
    body: dict[str, JsonValue] = Field(default_factory=dict)


class _Error(BaseModel):
    """Why a request was not answered."""

    code: str | None = None
    message: str | None = None


class _Line(BaseModel):
    """A line of a batch's output or error file."""

    custom_id: str
    response: _Answer | None = None
    error: _Error | None = None


class OpenAIBatchClient(OpenAIResponsesClient):
    """Asks by the batch; results come within a day."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits)
        self._queue = BatchQueue[ResponseCreateParamsBase, _Line](self, limits)

    @property
    def streams(self) -> bool:
        """Return False: results are fetched whole."""
        return False

    async def _exchange(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        in_use: set[str],
        receipt: Receipt,
    ) -> Reply:
        asked = self._parameters(prompt, shape, limits, in_use)
        line = await self._queue.ask(asked, receipt)
        answer = line.response
        if answer is None or not answer.body:
            said = line.error.message if line.error is not None else None
            raise Fault(FaultKind.BUSY, said or "the batch ended without a result")
        if answer.status_code != 200:
            sent = Asked.by(prompt, limits, in_use)
            said, code = _said(answer.body), code_in(answer.body)
            raise self._refused(answer.status_code, said, sent, {}, code=code)
        gathered = GatheredResponse(limits)
        # Unchecked, as the SDK takes a stream: servers leave out details that it calls required.
        gathered.take(Response.construct(None, **answer.body))
        return gathered.reply(self.name, turn=len(prompt.turns), is_record=shape is not None)

    async def submit(self, requests: Mapping[str, ResponseCreateParamsBase]) -> str:
        """Send requests by their ids; return the batch's id."""
        lines = [
            json.dumps({"custom_id": key, "method": "POST", "url": _PATH, "body": body})
            for key, body in requests.items()
        ]
        text = "\n".join(lines).encode()
        file = await self._client.files.create(file=("requests.jsonl", text), purpose="batch")
        batch = await self._client.batches.create(
            input_file_id=file.id, endpoint=_PATH, completion_window="24h"
        )
        return batch.id

    async def has_ended(self, batch_id: str) -> bool:
        """Say whether every result of a batch is there.

        Raises:
            Fault: the provider refused the whole batch.
        """
        batch = await self._client.batches.retrieve(batch_id)
        if batch.status == "failed":
            errors = batch.errors.data if batch.errors is not None else None
            said = "; ".join(e.message or "" for e in errors or ())
            # Such as the limit of tokens that may wait in batches, which is over later.
            is_full = any("limit" in (e.code or "") for e in errors or ())
            kind = FaultKind.BUSY if is_full else FaultKind.BAD_REQUEST
            raise Fault(kind, self._endpoint.key.redact(said or "batch failed"))
        return batch.status in _OVER

    async def results(self, batch_id: str) -> Mapping[str, _Line]:
        """Return the results of a batch that has ended."""
        batch = await self._client.batches.retrieve(batch_id)
        found: dict[str, _Line] = {}
        for file_id in (batch.error_file_id, batch.output_file_id):
            if file_id is not None:
                content = await self._client.files.content(file_id)
                found.update((line.custom_id, line) for line in _lines(content.text))
        return found

    async def cancel(self, batch_id: str) -> None:
        """Give a batch up."""
        await self._client.batches.cancel(batch_id)


def _lines(text: str) -> Iterator[_Line]:
    for row in text.splitlines():
        if not row.strip():
            continue
        try:
            yield _Line.model_validate_json(row)
        except ValidationError:
            # Whoever waits for it is told that there is no result.
            continue


def _said(body: Mapping[str, JsonValue]) -> str:
    error = body.get("error")
    words = error.get("message") if isinstance(error, dict) else None
    return words if isinstance(words, str) else "the request was refused"
