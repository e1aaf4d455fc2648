"""Requests gathered into batches: half the price for what may take hours."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from kernelwright.agents.providers.client import Limits, Receipt
from kernelwright.agents.providers.departure import begin_departure, current_departure
from kernelwright.agents.providers.fault import Fault, FaultKind

PRICE_SHARE = 0.5
"""Of the usual price, for input and output alike:
https://platform.claude.com/docs/en/build-with-claude/batch-processing and
https://developers.openai.com/api/docs/guides/batch."""

Request = TypeVar("Request")
Result = TypeVar("Result")
_MOST_FAILED_LOOKS = 30
_Look = TypeVar("_Look")
_Sent = TypeVar("_Sent", contravariant=True)
_Found = TypeVar("_Found", covariant=True)


class BatchService(Protocol[_Sent, _Found]):
    """A provider's batches."""

    async def submit(self, requests: Mapping[str, _Sent]) -> str:
        """Send requests by their ids; return the batch's id.

        Raises:
            Exception: what the provider's SDK raises.
        """

    async def has_ended(self, batch_id: str) -> bool:
        """Say whether every result of a batch is there."""

    async def results(self, batch_id: str) -> Mapping[str, _Found]:
        """Return the results of a batch that has ended, by the ids of their requests."""

    async def cancel(self, batch_id: str) -> None:
        """Give a batch up."""


class _Waiting(Generic[Request, Result]):
    """A request and whoever waits for its result."""

    def __init__(self, request: Request, receipt: Receipt) -> None:
        self.request = request
        self.receipt = receipt
        self.departure = current_departure()
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()


class BatchQueue(Generic[Request, Result]):
    """Sends what is asked within a moment as one batch, and looks for its results now and then."""

    def __init__(self, service: BatchService[Request, Result], limits: Limits) -> None:
        self._service = service
        self._limits = limits
        self._next: dict[str, _Waiting[Request, Result]] = {}
        self._taken_up: dict[str, dict[str, _Waiting[Request, Result]]] = {}
        """What waits for batches that an earlier process sent, by the batch's id."""
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request, receipt: Receipt) -> Result:
        """Return a request's result, hours later; with a receipt's place, from that batch.

        Raises:
            Fault: the batch ended without it.
            Exception: what the provider's SDK raises.
        """
        waiting = _Waiting[Request, Result](request, receipt)
        if receipt.place:
            waiting.departure.has_left = True
            batch_id, _, key = receipt.place.partition(" ")
            if batch_id not in self._taken_up:
                self._taken_up[batch_id] = {}
                self._start(self._take_up(batch_id))
            self._taken_up[batch_id][key] = waiting
        else:
            if not self._next:
                self._start(self._run())
            self._next[f"kw-{uuid.uuid4().hex}"] = waiting
        return await waiting.result

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _take_up(self, batch_id: str) -> None:
        await asyncio.sleep(self._limits.gather_s)
        # Whoever asks later looks for itself.
        batch = self._taken_up.pop(batch_id)
        await self._told(batch, self._settle(batch_id, batch))

    async def _run(self) -> None:
        await asyncio.sleep(self._limits.gather_s)
        batch, self._next = self._next, {}
        batch = {key: waiting for key, waiting in batch.items() if not waiting.result.done()}
        if batch:
            await self._told(batch, self._send(batch))

    async def _told(
        self, batch: Mapping[str, _Waiting[Request, Result]], work: Awaitable[None]
    ) -> None:
        """Do a batch's work; what fails is told to everybody who waits for it."""
        try:
            await work
        except Exception as e:
            for waiting in batch.values():
                if not waiting.result.done():
                    waiting.result.set_exception(e)

    async def _asked(self, look: Callable[[], Awaitable[_Look]]) -> _Look:
        """Look again where a look fails: the batch goes on, and is billed, whatever happens here.

        Raises:
            Fault: the provider refused the batch, or every look failed.
        """
        for _ in range(_MOST_FAILED_LOOKS - 1):
            try:
                return await look()
            except Fault:
                raise
            except Exception:
                await asyncio.sleep(self._limits.poll_s)
        try:
            return await look()
        except Fault:
            raise
        except Exception as e:
            raise Fault(
                FaultKind.DROPPED, f"no look at the batch succeeds any more ({type(e).__name__})"
            ) from None

    async def _send(self, batch: Mapping[str, _Waiting[Request, Result]]) -> None:
        departure = begin_departure()
        try:
            batch_id = await self._service.submit({key: w.request for key, w in batch.items()})
        finally:
            for waiting in batch.values():
                waiting.departure.has_left = departure.has_left
        for key, waiting in batch.items():
            waiting.receipt.keep(f"{batch_id} {key}")
        await self._settle(batch_id, batch)

    async def _settle(self, batch_id: str, batch: Mapping[str, _Waiting[Request, Result]]) -> None:
        while not await self._asked(lambda: self._service.has_ended(batch_id)):
            if all(waiting.result.done() for waiting in batch.values()):
                # Nobody waits any more: what has not begun is not paid for.
                with suppress(Exception):
                    await self._service.cancel(batch_id)
                return
            await asyncio.sleep(self._limits.poll_s)
        found = await self._asked(lambda: self._service.results(batch_id))
        for key, waiting in batch.items():
            if waiting.result.done():
                continue
            if key in found:
                waiting.result.set_result(found[key])
            else:
                fault = Fault(FaultKind.BUSY, "the batch ended without a result for this request")
                waiting.result.set_exception(fault)
