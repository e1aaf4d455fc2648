"""A wire on which requests and replies meet what services and networks do to them, by a plan."""

import asyncio
from collections.abc import Awaitable, Callable

from kernelwright.agents.message import Prompt, Reply
from kernelwright.agents.providers.client import (
    NO_RECEIPT,
    Limits,
    ProviderClient,
    Receipt,
    ReplyMode,
    ReplyShape,
)
from kernelwright.agents.providers.fault import Fault, FaultKind
from kernelwright.testing.fault.plan import FaultKind as PlannedKind
from kernelwright.testing.fault.sabotage import Sabotage

_REFUSALS: dict[PlannedKind, Fault] = {
    "model_busy": Fault(FaultKind.BUSY, "429, as planned", retry_after_s=0.0),
    "model_overloaded": Fault(FaultKind.BUSY, "529, as planned"),
    "model_reset": Fault(FaultKind.DROPPED, "connection reset, as planned"),
    "network_down": Fault(FaultKind.UNREACHABLE, "no network, as planned"),
}


class SabotagedClient:
    """Sends requests, unless something is planned to go wrong."""

    def __init__(
        self,
        wire: ProviderClient,
        sabotage: Sabotage,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._wire = wire
        self._sabotage = sabotage
        self._sleep = sleep

    @property
    def name(self) -> str:
        """Return `provider:model`."""
        return self._wire.name

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""
        return self._wire.mode

    @property
    def streams(self) -> bool:
        """Return whether replies are asked for as streams at present."""
        return self._wire.streams

    async def send(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        receipt: Receipt = NO_RECEIPT,
    ) -> Reply:
        """Send one request; see `ProviderClient.send`."""
        kinds = [fault.kind for fault in self._sabotage.at("call")]
        for kind in kinds:
            if (refusal := _REFUSALS.get(kind)) is not None:
                raise Fault(refusal.kind, refusal.message, retry_after_s=refusal.retry_after_s)
        if "model_stalls" in kinds:
            await self._sleep(limits.stall_s)
            raise Fault(FaultKind.DROPPED, "nothing came for too long, as planned")
        reply = await self._wire.send(prompt, shape, limits, receipt)
        if "reply_lost" in kinds:
            raise Fault(FaultKind.DROPPED, "cut off at its end, as planned", usage=reply.usage)
        if "model_garbled" in kinds:
            return _garbled(reply)
        return reply

    async def close(self) -> None:
        """Release connections."""
        await self._wire.close()


def _garbled(reply: Reply) -> Reply:
    """Cut off what the model said, its tool calls included."""
    calls = tuple(
        call.model_copy(update={"arguments": call.arguments[: len(call.arguments) // 2]})
        for call in reply.calls
    )
    text = reply.text[: len(reply.text) // 2]
    return reply.model_copy(update={"text": text, "calls": calls, "native": ""})
