"""What is said to a model and what comes back, as frozen records."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from kernelwright.agents.budget import Cost
from kernelwright.metal.diagnostic import Record

RoleName = Literal["planner", "coder", "repairer", "attacker", "doctor"]
LONGEST_ECHO = 8000
"""Characters of an invalid reply that a re-ask shows to the model again."""

Shape = TypeVar("Shape", bound=BaseModel)


class Turn(Record):
    """One further message of a conversation, after the opening request."""

    speaker: Literal["user", "assistant"]
    text: str


class Prompt(Record):
    """The opening of a conversation, from what never changes to what always does.

    Providers cache prefixes: `system` is the same for every task, `context` for every call on
    one task, `request` differs from call to call.
    """

    system: str
    context: str
    request: str
    template: str
    """Names and content hashes of the templates that were rendered."""
    turns: tuple[Turn, ...] = ()

    def answered(self, reply: str, correction: str) -> "Prompt":
        """Return the conversation after a reply that has to be corrected."""
        echo = reply[:LONGEST_ECHO] or "(empty reply)"
        more = (Turn(speaker="assistant", text=echo), Turn(speaker="user", text=correction))
        return self.model_copy(update={"turns": (*self.turns, *more)})

    @property
    def text(self) -> str:
        """Everything that the model reads, as one text."""
        return "\n\n".join((self.system, self.context, self.request, *(t.text for t in self.turns)))


class Purpose(Record):
    """Why a call is made: who asks, about which task, starting from which program."""

    role: RoleName
    task: str = ""
    parent: str | None = None


class Usage(Record):
    """Tokens as the provider bills them; the four kinds do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_estimate: bool = False
    """True where the server reported nothing and bytes stand in for tokens."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens that were read, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """All tokens read and written."""
        return self.prompt_tokens + self.output_tokens


Stop = Literal["done", "truncated", "refused"]


class Reply(Record):
    """One complete reply: the JSON of a tool call, or text that should hold JSON."""

    text: str
    stop: Stop
    usage: Usage
    model: str
    """`provider:model`, as the request named it."""


@dataclass(frozen=True)
class Answer(Generic[Shape]):
    """A validated reply and what it took."""

    record: Shape
    model: str
    cost: Cost
    latency_s: float
    calls: tuple[str, ...]
    """Ids of the ledger's calls that produced it."""


Acceptance = Callable[[Shape], str]
"""Says why a well-formed reply still cannot be used; empty text accepts it."""


class ChatModel(Protocol):
    """Messages in, a validated record and its cost out."""

    @property
    def name(self) -> str:
        """Return `provider:model`, the author of what it proposes."""

    async def ask(
        self,
        prompt: Prompt,
        shape: type[Shape],
        purpose: Purpose,
        accept: Acceptance[Shape] | None = None,
    ) -> Answer[Shape]:
        """Return a reply that validates as `shape`, asking once more when the first does not.

        Raises:
            ReplyError: the model refused, or both replies were invalid.
            ModelError: no model of the list can be used (key, name, context, service).
            BudgetError: the call at its worst could exceed a cap.
        """

    async def close(self) -> None:
        """Release connections."""


def request_hash(prompt: Prompt, shape: type[BaseModel]) -> str:
    """Return 64 hex digits over all that the model is told, the reply's schema included."""
    parts = [
        prompt.system,
        prompt.context,
        prompt.request,
        [[t.speaker, t.text] for t in prompt.turns],
        shape.model_json_schema(),
    ]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
