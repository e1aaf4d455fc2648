"""Claude models through Anthropic's Message Batches: the same requests, at half the price."""

from collections.abc import Mapping
from typing import cast

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from anthropic.types.messages import MessageBatchIndividualResponse
from anthropic.types.messages.batch_create_params import Request as BatchRequest

from kernelwright.agents.providers.anthropic import AnthropicClient
from kernelwright.agents.providers.anthropic_reply import GatheredMessage
from kernelwright.agents.providers.anthropic_request import Request
from kernelwright.agents.providers.batch import BatchQueue
from kernelwright.agents.providers.client import Endpoint, Limits, Receipt
from kernelwright.agents.providers.fault import Fault, FaultKind
from kernelwright.agents.providers.output_limit import Asked

_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
_Result = MessageBatchIndividualResponse


class AnthropicBatchClient(AnthropicClient):
    """Asks by the batch; results come within a day, mostly within an hour."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits)
        self._queue = BatchQueue[BatchRequest, _Result](self, limits)

    @property
    def streams(self) -> bool:
        """Return False: results are fetched whole."""
        return False

    async def _exchange(
        self, request: Request, limits: Limits, gathered: GatheredMessage, receipt: Receipt
    ) -> None:
        # The base of both kinds of parameters, which differ in whether they stream.
        whole = cast("MessageCreateParamsNonStreaming", self._parameters(request, limits))
        asked: BatchRequest = {"custom_id": "", "params": whole}
        result = (await self._queue.ask(asked, receipt)).result
        if result.type == "succeeded":
            gathered.take(result.message)
        elif result.type == "errored":
            error = result.error.error
            sent = Asked.by(request.prompt, limits, request.in_use)
            status = _STATUS.get(error.type, 500)
            raise self._refused(status, error.message, sent, {}, code=error.type)
        else:
            raise Fault(FaultKind.BUSY, f"the request was {result.type} with its batch")

    async def submit(self, requests: Mapping[str, BatchRequest]) -> str:
        """Send requests by their ids; return the batch's id."""
        named: list[BatchRequest] = [
            {"custom_id": key, "params": request["params"]} for key, request in requests.items()
        ]
        return (await self._client.messages.batches.create(requests=named)).id

    async def has_ended(self, batch_id: str) -> bool:
        """Say whether every result of a batch is there."""
        batch = await self._client.messages.batches.retrieve(batch_id)
        return batch.processing_status == "ended"

    async def results(self, batch_id: str) -> Mapping[str, _Result]:
        """Return the results of a batch that has ended."""
        lines = await self._client.messages.batches.results(batch_id)
        return {line.custom_id: line async for line in lines}

    async def cancel(self, batch_id: str) -> None:
        """Give a batch up."""
        await self._client.messages.batches.cancel(batch_id)
