"""Conversations with language models, behind one protocol."""

from kernelwright.agents.chat.conversation import Conversations
from kernelwright.agents.chat.fault import ReplyError
from kernelwright.agents.chat.ledger import Call, Ledger, MemoryLedger, Outcome, RecordedCall
from kernelwright.agents.chat.live import Patience
from kernelwright.agents.chat.message import Answer, ChatModel, Prompt, Purpose, Reply, Usage
from kernelwright.agents.chat.price import Price, PriceTable, load_prices
from kernelwright.agents.chat.spec import ChatSettings, ModelSpec, open_model
from kernelwright.agents.chat.switchboard import Switchboard
from kernelwright.agents.chat.wire import Limits

__all__ = [
    "Answer",
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
    "Switchboard",
    "Usage",
    "load_prices",
    "open_model",
]
