"""Claude models through the official SDK: adaptive thinking, tools, prompt caching, streaming."""

import asyncio

import anthropic
from anthropic.types import Message, OutputConfigParam
from anthropic.types.message_create_params import MessageCreateParamsBase

from kernelwright.agents.message import Prompt, Reply
from kernelwright.agents.providers.anthropic_reply import GatheredMessage
from kernelwright.agents.providers.anthropic_request import Request, cached
from kernelwright.agents.providers.client import (
    NO_RECEIPT,
    Endpoint,
    Limits,
    Receipt,
    ReplyMode,
    ReplyShape,
    spelled_out,
    with_tools_as_text,
)
from kernelwright.agents.providers.departure import begin_departure
from kernelwright.agents.providers.fault import Fault, FaultKind
from kernelwright.agents.providers.output_limit import Asked
from kernelwright.agents.providers.reported import Most, with_estimate
from kernelwright.agents.providers.sdk_client import (
    BROKEN,
    BoundedTransport,
    SdkClient,
    code_in,
    reply_timeouts,
    stream_switch,
    timeouts,
)

_WORDS = {
    "effort": ("effort",),
    "thinking": ("thinking",),
    "hour": ("ttl",),
    "stream": ("stream",),
    "schema": ("format", "schema"),
    "tools": ("tool",),
}
_HOLDERS = {"output_config": ("effort", "schema")}


class AnthropicClient(SdkClient):
    """The Messages API; gives up what a model refuses: effort, thinking, schemas, tools."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, _WORDS, _HOLDERS)
        self._client = anthropic.AsyncAnthropic(
            # A server of one's own wants no key, and the SDK sends nothing without one.
            api_key=endpoint.key.reveal() or "none",
            # The SDK adds the version, which other SDKs want named: one URL is good for both.
            base_url=endpoint.base_url and endpoint.base_url.rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=timeouts(limits, read_s=limits.stall_s),
            http_client=anthropic.DefaultAsyncHttpxClient(
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
        gathered = GatheredMessage(limits)
        request = self._request(prompt, shape)
        limits = self._fitted(request.prompt, limits)
        begin_departure()
        try:
            async with asyncio.timeout(limits.total_s):
                await self._exchange(request, limits, gathered, receipt)
            reply = gathered.reply(self.name, turn=len(prompt.turns), is_record=shape is not None)
        except anthropic.APIStatusError as e:
            fault = self._status_fault(e, Asked.by(request.prompt, limits, request.in_use))
        except (anthropic.AnthropicError, *BROKEN) as e:
            fault = self._broken(e)
        else:
            most = Most.of(request.prompt, shape, limits.output_tokens)
            return with_estimate(reply, prompt, most)
        fault.usage = gathered.usage if gathered.has_begun else None
        # Not chained: an SDK's exception carries the request, and that carries the key.
        raise fault from None

    def _request(self, prompt: Prompt, shape: ReplyShape | None) -> "Request":
        """Choose which features this request asks for."""
        request = Request(prompt)
        if "stream" in self._features:
            request.in_use.add("stream")
        if prompt.tools and shape is None:
            if "tools" in self._features:
                request.in_use.add("tools")
            else:
                request.prompt = with_tools_as_text(prompt)
        elif shape is not None and self.mode is ReplyMode.TEXT:
            request.prompt = spelled_out(prompt, shape)
        elif shape is not None:
            request.shape = shape
            request.in_use.add("schema" if self.mode is ReplyMode.SCHEMA else "tools")
        effort = self._endpoint.effort
        # A forced tool excludes thinking.
        if "thinking" in self._features and effort != "none" and not request.forces_tool:
            request.in_use.add("thinking")
        if "effort" in self._features and effort not in (None, "none", "minimal"):
            request.in_use.add("effort")
        if "hour" in self._features and prompt.keeps_cache_for_an_hour:
            request.in_use.add("hour")
        return request

    async def _exchange(
        self, request: Request, limits: Limits, gathered: GatheredMessage, receipt: Receipt
    ) -> None:
        """Send a request and gather its whole reply."""
        stream = await self._client.messages.create(
            **self._parameters(request, limits),
            stream=True,
            extra_body=stream_switch(request.in_use),
            # A ping is a byte: only a server that says nothing at all has stalled.
            timeout=reply_timeouts(limits, request.in_use, read_s=limits.stall_s),
        )
        async with stream:
            if (body := await self._at_once(stream.response, "content")) is not None:
                gathered.take(Message.construct(None, **body))
                return
            async for event in stream:
                gathered.add(event)

    def _parameters(self, request: "Request", limits: Limits) -> MessageCreateParamsBase:
        """Return a request with the features that it asks for."""
        parameters: MessageCreateParamsBase = {
            "model": self._endpoint.model,
            "max_tokens": limits.output_tokens,
            "system": [cached(request.prompt.system, request.ttl)],
            "messages": request.messages,
        }
        if "thinking" in request.in_use:
            parameters["thinking"] = {"type": "adaptive", "display": "summarized"}
        if request.tools:
            parameters["tools"] = request.tools
        if request.tool_choice is not None:
            parameters["tool_choice"] = request.tool_choice
        output: OutputConfigParam = {}
        if "schema" in request.in_use and request.shape is not None:
            output["format"] = {"type": "json_schema", "schema": request.shape.json_schema}
        effort = self._endpoint.effort
        if "effort" in request.in_use and effort != "none" and effort != "minimal":
            output["effort"] = effort
        if output:
            parameters["output_config"] = output
        return parameters

    def _status_fault(self, error: anthropic.APIStatusError, asked: Asked) -> Fault:
        said = error.api_message or error.message
        # An error event inside a stream arrives with the stream's own status, 200.
        if error.status_code == 200 and error.type != "overloaded_error":
            return Fault(FaultKind.DROPPED, self._endpoint.key.redact(said))
        status = 529 if error.type == "overloaded_error" else error.status_code
        headers, code = error.response.headers, code_in(error.body)
        return self._refused(status, said, asked, headers, code=code)

    async def close(self) -> None:
        """Release the SDK's connections."""
        await self._client.close()
