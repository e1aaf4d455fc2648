"""Conversation partners over loopback servers, and the small record that tests ask for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from kernelwright.agents.budget import Budget, Caps
from kernelwright.agents.session import (
    Answer,
    AsyncBridge,
    ChatSettings,
    Conversations,
    Ledger,
    Limits,
    MemoryLedger,
    ModelSpec,
    Patience,
    Prompt,
    Purpose,
    RecordedCall,
    open_model,
)
from tests.agents.loopback.server import LoopbackServer

NAMES = {"anthropic": "claude-sonnet-5", "openai": "gpt-5", "openai-responses": "gpt-5"}
QUICK = ChatSettings(
    limits=Limits(output_tokens=800, total_s=20, first_event_s=2, stall_s=0.3, reply_bytes=200_000),
    patience=Patience(attempts=6, first_wait_s=0.001, longest_wait_s=0.02),
    concurrency=8,
)


class Verse(BaseModel):
    """A line and how often to say it."""

    model_config = ConfigDict(extra="forbid")

    line: str
    times: int


PROMPT = Prompt(system="You write verse.", context="About the sea.", request="One.", template="t@0")
PURPOSE = Purpose(role="coder", task="sea")


def prompt(request: str) -> Prompt:
    return PROMPT.model_copy(update={"request": request})


@dataclass
class Partner:
    """A live model behind a loopback server, with what it wrote down."""

    server: LoopbackServer
    provider: str
    caps: Caps = field(default_factory=Caps)
    settings: ChatSettings = QUICK
    ledger: Ledger = field(default_factory=MemoryLedger)
    fallbacks: Sequence[ModelSpec] = ()
    task_caps: Caps = field(default_factory=Caps)
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = Budget(self.caps, self.task_caps)

    @property
    def spec(self) -> ModelSpec:
        name = f"{self.provider}:{NAMES[self.provider]}"
        return ModelSpec.parse(name, self.server.base_url(self.provider))

    def open(self, recorded: Sequence[RecordedCall] = ()) -> Conversations:
        model = open_model(
            (self.spec, *self.fallbacks),
            ledger=self.ledger,
            budget=self.budget,
            recorded=lambda _: recorded,
            settings=self.settings,
            remark=self.remarks.append,
        )
        assert model is not None
        return model

    def ask(self, words: str = "One.") -> Answer[Verse]:
        with AsyncBridge(self.open()) as board:
            return board.ask(prompt(words), Verse, PURPOSE)
