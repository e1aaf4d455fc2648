"""One cheap call that says what a model can do."""

import asyncio
import time

from pydantic import BaseModel, ConfigDict

from kernelwright.agents.budget import Budget, Caps
from kernelwright.agents.cap_text import in_dollars
from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.providers.client import Limits, ReplyMode
from kernelwright.agents.providers.price import load_prices
from kernelwright.agents.session.conversation import Conversations
from kernelwright.agents.session.ledger import MemoryLedger
from kernelwright.agents.session.live import LiveExchange, Patience, Recollection
from kernelwright.agents.session.spec import ModelSpec, open_client, price_of
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

_LIMITS = Limits(output_tokens=2000, total_s=120, first_event_s=100, reply_bytes=200_000)
_PATIENCE = Patience(attempts=2, longest_wait_s=5.0)
_MODE_WORDS = {
    ReplyMode.TOOL: "tools",
    ReplyMode.SCHEMA: "replies held to a JSON schema",
    ReplyMode.TEXT: "plain text only, which is parsed tolerantly",
}


class Sum(BaseModel):
    """The sum of the numbers."""

    model_config = ConfigDict(extra="forbid")

    total: int


class ModelReport(Record):
    """What one call showed."""

    model: str
    mode: ReplyMode
    """How replies can be held to a shape."""
    is_right: bool
    """Whether it can add; a model that cannot will write no kernels."""
    input_tokens: int
    output_tokens: int
    reports_usage: bool
    dollars: float | None
    """What the call cost; None where no price is known."""
    latency_s: float
    streams: bool = True
    """Whether replies come piece by piece."""

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        price = "no price known" if self.dollars is None else in_dollars(self.dollars)
        usage = "" if self.reports_usage else ", usage estimated"
        able = "" if self.is_right else "; it cannot add 17 and 25"
        return (
            f"{self.model} answers in {self.latency_s:.1f} s for {price} "
            f"({self.input_tokens} + {self.output_tokens} tokens{usage}): "
            f"{'streaming' if self.streams else 'no streams'}, {_MODE_WORDS[self.mode]}{able}."
        )


def doctor_model(model: str, base_url: str | None = None) -> ModelReport:
    """Ask a model for a small sum and report how it went.

    Raises:
        InputError: it is not the name of a live model.
        ModelError: the model cannot be used; the message says why and what to do.
    """
    spec = ModelSpec.parse(model, base_url)
    if not spec.is_live:
        raise InputError(
            f"expected a live model such as anthropic:NAME, found {model!r}; "
            "replay and none need no check."
        )
    return asyncio.run(_examined(spec))


async def _examined(spec: ModelSpec) -> ModelReport:
    wire = open_client(spec, _LIMITS)
    ledger, price = MemoryLedger(), price_of(spec, load_prices())
    exchange = LiveExchange(
        wire=wire,
        price=price,
        ledger=ledger,
        budget=Budget(Caps(calls=8)),
        recollection=Recollection(()),
        limits=_LIMITS,
        patience=_PATIENCE,
    )
    prompt = Prompt(
        system="You answer with one JSON object.",
        context="",
        request="Add 17 and 25. Return the object with the sum in `total`.",
        template="doctor",
    )
    conversation, started_s = Conversations([exchange]), time.monotonic()
    try:
        answer = await conversation.ask(prompt, Sum, Purpose(role="doctor"))
    finally:
        await conversation.close()
    usages = [c.outcome.usage for c in ledger.calls() if c.outcome is not None]
    return ModelReport(
        model=str(spec),
        mode=wire.mode,
        is_right=answer.record.total == 42,
        input_tokens=sum(u.prompt_tokens for u in usages),
        output_tokens=sum(u.output_tokens for u in usages),
        reports_usage=not any(u.is_estimate for u in usages),
        dollars=None if price is None else answer.cost.dollars,
        latency_s=time.monotonic() - started_s,
        streams=wire.streams,
    )
