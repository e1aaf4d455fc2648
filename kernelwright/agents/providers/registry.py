"""Which providers there are: one line for each, and one file behind it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from kernelwright.agents.providers.client import Endpoint, Limits, ProviderClient

MakeClient = Callable[[Endpoint, Limits], ProviderClient]


@dataclass(frozen=True)
class Provider:
    """Where a provider's client is found; it is imported at first use."""

    module: str
    client: str
    key_of: str
    """The provider whose key it takes: its `NAME_API_KEY`."""
    asks_by_the_batch: bool = False
    """True where a reply may take hours and costs half."""

    def open(self, endpoint: Endpoint, limits: Limits) -> ProviderClient:
        """Return a client; the SDKs take a second to import, which other runs need not pay."""
        module = importlib.import_module(f"kernelwright.agents.providers.{self.module}")
        make = cast("MakeClient", getattr(module, self.client))
        return make(endpoint, limits)


_RESPONSES = Provider("openai_responses", "OpenAIResponsesClient", "openai")
_CHAT = Provider("openai_chat", "OpenAIChatClient", "openai")
PROVIDERS = {
    "anthropic": Provider("anthropic", "AnthropicClient", "anthropic"),
    "openai": _RESPONSES,
    "openai-responses": _RESPONSES,
    "openai-chat": _CHAT,
    "anthropic-batch": Provider("anthropic_batch", "AnthropicBatchClient", "anthropic", True),
    "openai-batch": Provider("openai_batch", "OpenAIBatchClient", "openai", True),
}


def provider_of(name: str, base_url: str | None) -> Provider:
    """Return a live provider; a server of one's own speaks Chat Completions by default."""
    return _CHAT if name == "openai" and base_url is not None else PROVIDERS[name]
