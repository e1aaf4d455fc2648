"""Requests gathered into batches: half the price for what may take hours."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from kernelwright.agents.providers.client import Limits
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

    def __init__(self, request: Request) -> None:
        self.request = request
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()


class BatchQueue(Generic[Request, Result]):
    """Sends what is asked within a moment as one batch, and looks for its results now and then."""

    def __init__(self, service: BatchService[Request, Result], limits: Limits) -> None:
        self._service = service
        self._limits = limits
        self._next: dict[str, _Waiting[Request, Result]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Result:
        """Return a request's result, hours later.

        Raises:
            Fault: the batch ended without it.
            Exception: what the provider's SDK raises.
        """
        if not self._next:
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        waiting = _Waiting[Request, Result](request)
        self._next[f"kw-{uuid.uuid4().hex}"] = waiting
        return await waiting.result

    async def _run(self) -> None:
        await asyncio.sleep(self._limits.gather_s)
        batch, self._next = self._next, {}
        batch = {key: waiting for key, waiting in batch.items() if not waiting.result.done()}
        if not batch:
            return
        try:
            await self._settle(batch)
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

    async def _settle(self, batch: Mapping[str, _Waiting[Request, Result]]) -> None:
        batch_id = await self._service.submit({key: w.request for key, w in batch.items()})
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
