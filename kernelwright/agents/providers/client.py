"""What one provider's format has to offer: a single request, streamed, with its limits."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from kernelwright.agents.message import Prompt, Reply, Turn
from kernelwright.agents.providers.key import Key
from kernelwright.metal.diagnostic import Record


class ReplyMode(StrEnum):
    """How a reply is held to its shape, from what leaves a model most freedom to think."""

    SCHEMA = "schema"
    TOOL = "tool"
    """One tool that it has to call, which some providers only offer without thinking."""
    TEXT = "text"


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Limits(Record):
    """When a request is given up."""

    output_tokens: int = 16_000
    total_s: float = 900.0
    first_event_s: float = 300.0
    """Until a reply begins: local servers read long prompts slowly."""
    stall_s: float = 60.0
    """Between two pieces of a reply that has begun."""
    reply_bytes: int = 2_000_000
    """Of what the model says; the stream around it may be ten times as long."""
    connect_s: float = 10.0
    batch_s: float = 86_400.0
    """What `total_s` is for a model that is asked by the batch: providers promise a day."""
    gather_s: float = 2.0
    """How long a batch waits for more requests before it is sent."""
    poll_s: float = 20.0
    """Between two looks at a batch that runs."""


class ReplyShape(Record):
    """The record that a reply has to be, as a server is told."""

    name: str
    description: str
    json_schema: dict[str, object]


@dataclass(frozen=True)
class Receipt:
    """Where the reply to one request can be fetched by a later process, if it takes hours."""

    keep: Callable[[str], None] = lambda place: None
    """Writes the place down, as soon as the provider has the request."""
    place: str = ""
    """What an earlier process wrote down: the request is not sent again."""


NO_RECEIPT = Receipt()


class ProviderClient(Protocol):
    """One model at one server."""

    @property
    def name(self) -> str:
        """Return `provider:model`."""

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""

    @property
    def streams(self) -> bool:
        """Return whether replies are asked for as streams at present."""

    async def send(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        receipt: Receipt = NO_RECEIPT,
    ) -> Reply:
        """Send one request and return its complete reply; no retries here.

        Without a shape the model may call the prompt's tools or say something. Models that are
        asked by the batch keep the receipt; with one that has a place they fetch their reply there.

        Raises:
            Fault: there is no complete reply.
        """

    async def close(self) -> None:
        """Release connections."""


class TooManyBytes(Exception):  # noqa: N818 - becomes a Fault at the wire
    """A server sent more than one reply may hold."""


class Text:
    """Pieces of a reply, up to a limit."""

    def __init__(self, most_bytes: int) -> None:
        self._pieces: list[str] = []
        self._room = most_bytes

    def add(self, piece: str) -> None:
        """Append a piece.

        Raises:
            TooManyBytes: the limit is passed.
        """
        self._room -= len(piece)
        if self._room < 0:
            raise TooManyBytes("a reply without an end")
        self._pieces.append(piece)

    def __str__(self) -> str:
        return "".join(self._pieces)


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served, and with which key."""

    provider: str
    model: str
    key: Key
    base_url: str | None = None
    effort: Effort | None = None
    """How hard a model shall think; None leaves it to the provider, `none` switches it off."""

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"


class Features:
    """What a server is asked for, until it refuses it by name."""

    def __init__(
        self,
        words: Mapping[str, tuple[str, ...]],
        holders: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Take the words by which servers name each feature in an error, most specific first.

        And the features that one parameter of a request holds together, by its name.
        """
        self._words = words
        self._holders = holders or {}
        self._given_up: set[str] = set()

    def __contains__(self, feature: str) -> bool:
        """Say whether a feature is still asked for."""
        return feature not in self._given_up

    def give_up(self, feature: str) -> None:
        """Ask for a feature no more."""
        self._given_up.add(feature)

    def concede(self, message: str, in_use: Collection[str]) -> bool:
        """Give up the first feature in use that an error names; False when it names none.

        A parameter that is named, and nothing in it, is given up with all that it holds.
        """
        said = message.lower()
        for feature, words in self._words.items():
            if feature in in_use and feature in self and any(_names(said, word) for word in words):
                self._given_up.add(feature)
                return True
        for holder, features in self._holders.items():
            held = {f for f in features if f in in_use and f in self}
            if held and _names(said, holder):
                self._given_up |= set(features)
                return True
        return False

    @property
    def mode(self) -> ReplyMode:
        """How replies are held to their shape at present."""
        if "schema" in self:
            return ReplyMode.SCHEMA
        return ReplyMode.TOOL if "tools" in self else ReplyMode.TEXT


def _names(said: str, word: str) -> bool:
    """Say whether an error holds a word, not as the end of another: `stream`, and no upstream."""
    return re.search(rf"(?<![a-z]){re.escape(word)}", said) is not None


def spelled_out(prompt: Prompt, shape: ReplyShape) -> Prompt:
    """Return the prompt with the reply's schema in words, for servers that hold to none."""
    schema = json.dumps(shape.json_schema, separators=(",", ":"))
    rule = f"Reply with one JSON object and nothing else. It must fit this JSON schema:\n{schema}"
    return prompt.model_copy(update={"request": f"{prompt.request}\n\n{rule}"})


TOOLS_AS_TEXT = """
## How to use a tool here

Write one JSON object in a fence and nothing after it; the next message says what the tool found:

```json
{"tool": "NAME", "arguments": {...}}
```

The tools, each with the JSON schema of its arguments:
"""


def with_tools_as_text(prompt: Prompt) -> Prompt:
    """Return a conversation in which tools are offered, called and answered in plain text."""
    listed = [
        f"- `{tool.name}`: {tool.description}\n  {json.dumps(tool.json_schema)}"
        for tool in prompt.tools
    ]
    system = "\n".join((prompt.system, TOOLS_AS_TEXT, *listed))
    turns = tuple(_as_text(turn) for turn in prompt.history)
    return prompt.model_copy(update={"system": system, "tools": (), "turns": turns})


def _as_text(turn: Turn) -> Turn:
    parts = [turn.text] if turn.text else []
    parts += [
        f'```json\n{{"tool": "{call.name}", "arguments": {call.arguments}}}\n```'
        for call in turn.calls
    ]
    parts += [result.text for result in turn.results]
    return Turn(speaker=turn.speaker, text="\n\n".join(parts) or "(nothing)")
