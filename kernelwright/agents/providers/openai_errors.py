"""What both of OpenAI's wire formats share: its errors, and how a stream is watched."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import openai

from kernelwright.agents.providers.client import Features, Limits, status_fault
from kernelwright.agents.providers.fault import Fault, FaultKind
from kernelwright.agents.providers.key import Key

_Event = TypeVar("_Event")


def fault_of_status(
    error: openai.APIStatusError, key: Key, features: Features, in_use: set[str]
) -> Fault:
    """Return the fault of a refused request, a concession where it names a feature in use."""
    message = key.redact(_said(error))
    if error.status_code in (400, 422) and features.concede(message, in_use):
        return Fault(FaultKind.UNSUPPORTED, message)
    return status_fault(error.status_code, message, error.response.headers)


def _said(error: openai.APIStatusError) -> str:
    """Return the server's own words, without the status that the SDK puts before them."""
    words = error.body.get("message") if isinstance(error.body, dict) else None
    return words if isinstance(words, str) and words else error.message


async def watched(events: AsyncIterator[_Event], limits: Limits) -> AsyncIterator[_Event]:
    """Yield events for as long as none lets the stall limit pass once a reply has begun."""
    wait_s = limits.first_event_s
    while True:
        try:
            async with asyncio.timeout(wait_s):
                event = await anext(events)
        except StopAsyncIteration:
            return
        except TimeoutError as e:
            raise TimeoutError(f"no data for {wait_s:g} s") from e
        yield event
        wait_s = limits.stall_s
