"""What OpenAI's wire formats share: its SDK, its errors, and how a stream is watched."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import openai

from kernelwright.agents.message import Prompt, Reply
from kernelwright.agents.providers.client import (
    NO_RECEIPT,
    Endpoint,
    Limits,
    Receipt,
    ReplyShape,
    spelled_out,
    with_tools_as_text,
)
from kernelwright.agents.providers.departure import begin_departure
from kernelwright.agents.providers.fault import Fault
from kernelwright.agents.providers.output_limit import Asked
from kernelwright.agents.providers.reported import Most, with_estimate
from kernelwright.agents.providers.sdk_client import (
    BROKEN,
    BoundedTransport,
    SdkClient,
    code_in,
    timeouts,
)

_Event = TypeVar("_Event")


class OpenAIClient(SdkClient, ABC):
    """One request in one of OpenAI's formats; subclasses say what it holds and read its reply."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, words: Mapping[str, tuple[str, ...]]
    ) -> None:
        super().__init__(endpoint, words)
        self._client = openai.AsyncOpenAI(
            # A server of one's own wants no key, and the SDK sends nothing without one.
            api_key=endpoint.key.reveal() or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=timeouts(limits, read_s=limits.first_event_s),
            http_client=openai.DefaultAsyncHttpxClient(
                transport=BoundedTransport(limits), follow_redirects=False
            ),
        )

    async def send(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        receipt: Receipt = NO_RECEIPT,
    ) -> Reply:
        """Send one request; see `ProviderClient.send`."""
        in_use = self._in_use(prompt, shape)
        if prompt.tools and "tools" not in in_use:
            prompt = with_tools_as_text(prompt)
        if shape is not None and not {"schema", "tools"} & in_use:
            prompt = spelled_out(prompt, shape)
        limits = self._fitted(prompt, limits)
        most = Most.of(prompt, shape, limits.output_tokens)
        begin_departure()
        try:
            async with asyncio.timeout(limits.total_s):
                reply = await self._exchange(prompt, shape, limits, in_use, receipt)
                return with_estimate(reply, prompt, most)
        except Fault as e:
            e.usage = e.usage and most.possible(e.usage)
            raise
        except openai.APIStatusError as e:
            fault = self._status_fault(e, Asked.by(prompt, limits, in_use))
        except (openai.OpenAIError, *BROKEN) as e:
            fault = self._broken(e)
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    @abstractmethod
    def _in_use(self, prompt: Prompt, shape: ReplyShape | None) -> set[str]:
        """Choose which features a request asks for."""

    @abstractmethod
    async def _exchange(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        in_use: set[str],
        receipt: Receipt,
    ) -> Reply:
        """Send a request and read its whole reply."""

    def _status_fault(self, error: openai.APIStatusError, asked: Asked) -> Fault:
        headers, code = error.response.headers, code_in(error.body)
        return self._refused(error.status_code, _said(error), asked, headers, code=code)

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()


def _said(error: openai.APIStatusError) -> str:
    """Return the server's own words, without the status that the SDK puts before them."""
    words = error.body.get("message") if isinstance(error.body, dict) else error.body
    return words if isinstance(words, str) and words else error.response.text


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
