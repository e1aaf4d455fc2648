"""Conversations with language models, behind one protocol."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.agents.message import Answer, ChatModel, Prompt, Purpose, Reply, Usage
    from kernelwright.agents.providers.client import Limits
    from kernelwright.agents.providers.fault import ReplyError
    from kernelwright.agents.providers.price import Price, PriceTable, load_prices
    from kernelwright.agents.session.async_bridge import AsyncBridge
    from kernelwright.agents.session.conversation import Conversations
    from kernelwright.agents.session.ledger import Call, Ledger, MemoryLedger, Outcome, RecordedCall
    from kernelwright.agents.session.live import Patience
    from kernelwright.agents.session.spec import ChatSettings, ModelSpec, open_model
else:
    offer_lazily(__name__)


__all__ = [
    "Answer",
    "AsyncBridge",
    "Call",
    "ChatModel",
    "ChatSettings",
    "Conversations",
    "Ledger",
    "Limits",
    "MemoryLedger",
    "ModelSpec",
    "Outcome",
    "Patience",
    "Price",
    "PriceTable",
    "Prompt",
    "Purpose",
    "RecordedCall",
    "Reply",
    "ReplyError",
    "Usage",
    "load_prices",
    "open_model",
]
