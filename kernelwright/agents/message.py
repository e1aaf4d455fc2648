"""What is said to a model and what comes back, as frozen records."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel

from kernelwright.agents.budget import Cost
from kernelwright.metal.diagnostic import Record

RoleName = Literal["planner", "coder", "repairer", "attacker", "doctor"]
LONGEST_ECHO = 24_000
"""Characters of a model's own text or call that are sent back to it whole."""
_ECHO_ENDS = 4000
"""What is sent back of a longer one, from its beginning and from its end."""

Shape = TypeVar("Shape", bound=BaseModel)


def whole_characters(text: str) -> str:
    """Return a text that UTF-8 can hold: JSON may spell halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|"
    r"(?P<half>\\u[dD][89a-fA-F][\da-fA-F]{2})"
)
"""A backslash, a whole pair of surrogates, or one without the other, as JSON spells them."""


def whole_escapes(text: str) -> str:
    """Return JSON, or what a model takes for it, that spells no half of a surrogate pair."""
    return _ESCAPE.sub(lambda m: "\\ufffd" if m["half"] else m[0], whole_characters(text))


Said = Annotated[str, AfterValidator(whole_characters)]
"""What a model wrote."""
SaidJson = Annotated[str, AfterValidator(whole_escapes)]
"""The same where it is read as JSON: no text in it is one that UTF-8 cannot hold."""


def echoed(text: str) -> str:
    """Return a model's own text as it is sent back: of a long one the beginning and the end."""
    if len(text) <= LONGEST_ECHO:
        return text
    left_out = f"[{len(text) - 2 * _ECHO_ENDS:,} characters of this reply are left out here.]"
    return f"{text[:_ECHO_ENDS]}\n{left_out}\n{text[-_ECHO_ENDS:]}"


def echoed_arguments(arguments: str) -> str:
    """Return a call's arguments as they are sent back, as JSON where they were too long, too."""
    if len(arguments) <= LONGEST_ECHO:
        return arguments
    return json.dumps({"shortened": echoed(arguments)})


class Tool(Record):
    """A function that a model may call in a conversation."""

    name: str
    description: str
    json_schema: dict[str, object]


class ToolCall(Record):
    """A model's wish to have a tool run."""

    id: Said
    """Unique in its conversation, and legal in every provider's format."""
    name: Said
    arguments: SaidJson
    """JSON as the model wrote it, which may be no JSON."""


class ToolResult(Record):
    """What a tool call brought, as the model reads it."""

    call_id: str
    text: str
    is_error: bool = False


class Turn(Record):
    """One further message of a conversation, after the opening request."""

    speaker: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    """Answers to all calls of the turn before, in their order."""
    told: tuple[ToolResult, ...] = ()
    """The answers that `text` begins with, where the model wrote its calls as text."""
    reasoning: str = ""
    """What the provider shows of the model's thinking; for people, no verdict rests on it."""
    native: str = ""
    """The turn as JSON in the provider's own format, sent back to it unchanged: signed thinking
    blocks and encrypted reasoning get lost in any other form."""
    native_format: str = ""
    """Names that format, such as `anthropic`."""

    @property
    def as_sent(self) -> "Turn":
        """The turn as later requests hold it; `native` is cut by what wrote it."""
        if self.speaker == "user":
            return self
        calls = tuple(
            call.model_copy(update={"arguments": echoed_arguments(call.arguments)})
            for call in self.calls
        )
        return self.model_copy(update={"text": echoed(self.text), "calls": calls})


COLD_CACHE_S = 240.0
"""After a wait as long as this a cache of five minutes may be cold before the next turn."""


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
    tools: tuple[Tool, ...] = ()
    """What the model may call; part of what never changes."""
    turns: tuple[Turn, ...] = ()
    keeps_cache_for_an_hour: bool = False
    """True where more than five minutes may pass between two turns."""

    def followed_by(self, *turns: Turn) -> "Prompt":
        """Return the conversation with further turns."""
        return self.model_copy(update={"turns": (*self.turns, *turns)})

    def answered(self, reply: str, correction: str) -> "Prompt":
        """Return the conversation after a reply that has to be corrected."""
        echo = Turn(speaker="assistant", text=reply or "(empty reply)")
        more = (echo, Turn(speaker="user", text=correction))
        return self.followed_by(*more)

    @property
    def history(self) -> tuple[Turn, ...]:
        """The turns as they are sent, what is long of the model's own cut."""
        return tuple(turn.as_sent for turn in self.turns)

    @property
    def opening_bytes(self) -> int:
        """What the model reads before any history, tools included."""
        tools = [tool.model_dump_json() for tool in self.tools]
        return sum(len(t.encode()) for t in (self.system, self.context, self.request, *tools))

    @property
    def text(self) -> str:
        """Everything that the model reads, as one text."""
        said = [part for turn in self.turns for part in _parts(turn)]
        return "\n\n".join((self.system, self.context, self.request, *said))

    @property
    def bytes_sent(self) -> int:
        """No fewer bytes than a provider can count tokens for."""
        history = sum(max(len(part.encode()), len(turn.native.encode())) for turn in self.history
                      for part in ("".join(_parts(turn)),))  # fmt: skip
        return self.opening_bytes + history


def _parts(turn: Turn) -> tuple[str, ...]:
    calls = (f"{call.name} {call.arguments}" for call in turn.calls)
    parts = (turn.text, *calls, *(result.text for result in turn.results))
    return tuple(part for part in parts if part)


class Purpose(Record):
    """Why a call is made: who asks, about which task, starting from which program."""

    role: RoleName
    task: str = ""
    parent: str | None = None
    conversation: int = 0
    """Which conversation about the task, from 1; 0 for a single question."""
    model: str = ""
    """Who is asked first, as `provider:model`; empty for the first of the list."""


class Usage(Record):
    """Tokens as the provider bills them; reasoning is output, the other kinds do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    hour_write_tokens: int = 0
    """Written to a cache that keeps them for an hour, which costs more."""
    reasoning_tokens: int = 0
    """Of the output tokens, those that the model thought with."""
    is_estimate: bool = False
    """True where the server reported nothing and bytes stand in for tokens."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens that were read, cached or not."""
        return sum(
            (
                self.input_tokens,
                self.cache_read_tokens,
                self.cache_write_tokens,
                self.hour_write_tokens,
            )
        )

    @property
    def total_tokens(self) -> int:
        """All tokens read and written."""
        return self.prompt_tokens + self.output_tokens


Stop = Literal["done", "truncated", "refused"]


class Reply(Record):
    """One complete reply: a record's JSON, or what the model says and the tools it calls."""

    text: Said
    stop: Stop
    usage: Usage
    model: str
    """`provider:model`, as the request named it."""
    calls: tuple[ToolCall, ...] = ()
    reasoning: Said = ""
    native: SaidJson = ""
    native_format: str = ""

    @property
    def is_empty(self) -> bool:
        """True where a whole reply holds no text, no call and no thought."""
        says_something = self.text.strip() or self.calls or self.reasoning
        return self.stop == "done" and not says_something

    @property
    def turn(self) -> Turn:
        """The reply as a turn of its conversation."""
        return Turn(
            speaker="assistant",
            text=self.text,
            calls=self.calls,
            reasoning=self.reasoning,
            native=self.native,
            native_format=self.native_format,
        )


def _nowhere(place: int, answer: ToolResult) -> None:
    """Keep nothing."""


def _unkept(flaw: str) -> None:
    """Keep nothing."""


@dataclass(frozen=True)
class TimedReply:
    """A complete reply and what it took."""

    reply: Reply
    cost: Cost
    latency_s: float
    call_id: str
    answers: Mapping[int, ToolResult] = field(default_factory=dict)
    """What its tool calls were answered with before a kill, by their place in the reply."""
    keep_answer: Callable[[int, ToolResult], None] = _nowhere
    """Records such an answer, so that no later process works it out again."""
    keep_flaw: Callable[[str], None] = _unkept
    """Records why the reply is of no use: its cause, and after a colon what is wrong with it."""
    stands_in: str = ""
    """Why another model, which was asked before, gave nothing; empty for the first choice."""


@dataclass(frozen=True)
class Spent:
    """What replies took."""

    dollars: float = 0.0
    seconds: float = 0.0

    @classmethod
    def on(cls, timed: TimedReply) -> "Spent":
        """Return what one reply took."""
        return cls(timed.cost.dollars, timed.latency_s)

    def __add__(self, other: "Spent") -> "Spent":
        """Return the sum."""
        return Spent(self.dollars + other.dollars, self.seconds + other.seconds)

    def since(self, before: "Spent") -> "Spent":
        """Return what was added."""
        return Spent(self.dollars - before.dollars, self.seconds - before.seconds)


@dataclass(frozen=True)
class Answer(Generic[Shape]):
    """A validated reply and what it took."""

    record: Shape
    model: str
    cost: Cost
    latency_s: float
    calls: tuple[str, ...]
    """Ids of the ledger's calls that produced it."""
    stands_in: str = ""
    """Why another model, which was asked before, gave nothing; empty for the first choice."""


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
            BudgetError: whichever model is asked, the call at its worst could exceed a cap.
        """

    async def turn(self, prompt: Prompt, purpose: Purpose) -> TimedReply:
        """Return a conversation's next turn, in which the model may call the prompt's tools.

        Raises:
            ReplyError: the model refused.
            ModelError: no model of the list can be used (key, name, context, service).
            BudgetError: whichever model is asked, the call at its worst could exceed a cap.
        """

    @property
    def models(self) -> tuple[str, ...]:
        """Return every `provider:model` that may be asked, the first choice first."""

    def recorded_turns(self, purpose: Purpose) -> Sequence[Turn]:
        """Return the turns that are on record of a conversation, none for a new one."""

    def spent(self, task: str) -> Spent:
        """Return what all replies about a task took so far, those of no use among them.

        Replies on record count as when they were new.
        """

    async def close(self) -> None:
        """Release connections."""


def request_hash(prompt: Prompt, shape: type[BaseModel] | None) -> str:
    """Return 64 hex digits over all that the model is told, tools and the reply's schema too."""
    parts = [
        prompt.system,
        prompt.context,
        prompt.request,
        [tool.model_dump() for tool in prompt.tools],
        [[t.speaker, *_parts(t)] for t in prompt.turns],
        None if shape is None else shape.model_json_schema(),
    ]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
