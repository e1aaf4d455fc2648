"""How long a reply may be, by what a server said when it refused a longer one."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from kernelwright.agents.message import Prompt
from kernelwright.agents.providers.client import Limits
from kernelwright.agents.providers.fault import FaultKind

_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")
_TOO_MANY = re.compile(
    r"too (large|high|big)|at most|maximum|exceed|less than|range|between|>|<=", re.IGNORECASE
)
_CONTEXT = (
    r"\d+ \+ \d+ > (\d+)",
    r"inputs\W+tokens \+ \W*max_new_tokens\W+must be <= (\d+)",
    r"context[ _](?:length|limit|window|size)\D{0,20}?(\d+)",
)
"""How Anthropic, TGI, and vLLM, SGLang, OpenAI and OpenRouter name the length of a context."""
_INPUT = (r"(\d+) \+ \d+ > \d+", r"(\d+) \W?inputs?\W? tokens")
_TOTAL = r"requested (?:a total of |about )?(\d+) tokens"
"""Input and reply together."""
LEAST_TOKENS = 256
"""Below it no reply holds a record."""
_MARGIN_TOKENS = 64
"""What is left free: servers differ in whether the last token of a context may be used."""
_BYTES_PER_TOKEN = 3.0
"""Of code and JSON at the low end, for prompts whose tokens no server has counted."""


@dataclass(frozen=True)
class Asked:
    """What one request asks a server for."""

    input_bytes: int
    output_tokens: int
    in_use: Collection[str]
    """The features that it uses."""

    @classmethod
    def by(cls, prompt: Prompt, limits: Limits, in_use: Collection[str]) -> "Asked":
        """Return what a request with this prompt asks for."""
        return cls(prompt.bytes_sent, limits.output_tokens, in_use)


@dataclass
class OutputLimit:
    """The longest reply that a server allows: at any prompt, and beside a long one.

    A limit of the model holds for every request. What a context leaves hangs on the prompt: it is
    exact for one whose tokens the server counted, and estimated from there for others.
    """

    _of_model: int | None = None
    _context: int | None = None
    _counted: dict[int, int] = field(default_factory=dict)
    """Tokens of refused prompts by their bytes."""

    def tokens(self, input_bytes: int, wanted: int) -> int:
        """Return how many tokens a reply may have beside a prompt of so many bytes."""
        most = wanted if self._of_model is None else min(wanted, self._of_model)
        # A reply that is cut off is paid for; a refusal is free, and counts the prompt.
        least = LEAST_TOKENS if input_bytes in self._counted else max(LEAST_TOKENS, wanted // 4)
        return min(most, max(self._room(input_bytes, wanted), least))

    def learn(self, said: str, asked: Asked) -> FaultKind | None:
        """Take in a refusal.

        Returns:
            What it says: that a shorter reply is allowed (`UNSUPPORTED`), that the prompt leaves
            no room for a reply (`CONTEXT_OVERFLOW`); None where it names no limit of a reply.
        """
        said = re.sub(r"(?<=\d),(?=\d{3})", "", said)
        context = _first_of(_CONTEXT, said)
        counted = _counted_input(said, asked.output_tokens)
        is_about_replies = any(name in said for name in _NAMES) and _TOO_MANY.search(said)
        if context is not None and (counted is not None or is_about_replies):
            return self._learn_context(context, counted, asked)
        if not is_about_replies:
            return None
        numbers = (int(n) for n in re.findall(r"\b\d+\b(?!-)", said))
        allowed = max((n for n in numbers if LEAST_TOKENS <= n < asked.output_tokens), default=None)
        if allowed is None:
            return None
        self._of_model = allowed
        return FaultKind.UNSUPPORTED

    def _learn_context(self, context: int, counted: int | None, asked: Asked) -> FaultKind:
        self._context = context
        if counted is not None:
            self._counted[asked.input_bytes] = counted
        if self._room(asked.input_bytes, asked.output_tokens) >= asked.output_tokens:
            # The prompt is longer than estimated, or another limit than the one that is told holds.
            if counted is None:
                self._counted[asked.input_bytes] = context - asked.output_tokens // 2
            else:
                self._of_model = max(asked.output_tokens // 2, LEAST_TOKENS)
        has_room = self._room(asked.input_bytes, asked.output_tokens) >= LEAST_TOKENS
        return FaultKind.UNSUPPORTED if has_room else FaultKind.CONTEXT_OVERFLOW

    def _room(self, input_bytes: int, wanted: int) -> int:
        """Return what a context leaves beside a prompt, `wanted` where no length is known."""
        if self._context is None:
            return wanted
        return self._context - self._input_tokens(input_bytes) - _MARGIN_TOKENS

    def _input_tokens(self, input_bytes: int) -> int:
        """Count a prompt's tokens from the prompt of known tokens that is nearest in length."""
        nearest = min(self._counted, key=lambda known: abs(known - input_bytes), default=0)
        beyond = (input_bytes - nearest) / _BYTES_PER_TOKEN
        return max(0, self._counted.get(nearest, 0) + round(beyond))


def _counted_input(said: str, output_tokens: int) -> int | None:
    """Return how many tokens a server says that the prompt has."""
    if (counted := _first_of(_INPUT, said)) is not None:
        return counted
    total = _first_of((_TOTAL,), said)
    return None if total is None or total <= output_tokens else total - output_tokens


def _first_of(patterns: Collection[str], said: str) -> int | None:
    """Return the number that the first matching pattern names."""
    matches = (re.search(pattern, said, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1]) for match in matches if match), None)
