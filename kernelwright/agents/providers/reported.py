"""Token counts as servers report them: some are missing, and some are no counts."""

from dataclasses import dataclass

from kernelwright.agents.message import Prompt, Reply, Usage
from kernelwright.agents.providers.client import ReplyShape

_OVERHEAD_TOKENS = 1024
"""Room for what a provider adds to a prompt: its tool preamble and message marks."""

UNREPORTED = Usage(is_estimate=True)
"""Stands for tokens that a server did not tell, until bytes stand in for them."""


def count(value: object) -> int | None:
    """Return a number of tokens, None for anything else: SDKs do not check what servers send."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


@dataclass(frozen=True)
class Reported:
    """What OpenAI's formats tell: parts of the prompt are counted in it, thoughts in the output."""

    prompt: object
    output: object
    cached: object = None
    written: object = None
    reasoning: object = None

    @property
    def usage(self) -> Usage:
        """The same without overlaps; `UNREPORTED` where either sum is missing."""
        prompt, output = count(self.prompt), count(self.output)
        if prompt is None or output is None:
            return UNREPORTED
        cached = min(count(self.cached) or 0, prompt)
        written = min(count(self.written) or 0, prompt - cached)
        return Usage(
            input_tokens=prompt - cached - written,
            output_tokens=output,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=min(count(self.reasoning) or 0, output),
        )


@dataclass(frozen=True)
class Most:
    """The most tokens that one request can take: what its worst case counts, and its bill."""

    input_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, prompt: Prompt, shape: ReplyShape | None, output_tokens: int) -> "Most":
        """Return the bounds of a request whose reply may have so many tokens."""
        # No token is shorter than a byte, so bytes bound tokens for every tokenizer.
        schema_bytes = 0 if shape is None else len(str(shape.json_schema).encode())
        return cls(prompt.bytes_sent + schema_bytes + _OVERHEAD_TOKENS, output_tokens)

    def possible(self, told: Usage, said_bytes: int = 0) -> Usage:
        """Return what a server told; the most there can be stands for a count above it.

        Servers may ignore how long a reply was allowed to be, so its bytes count, too.
        """
        most: dict[str, int | bool] = {}
        if told.prompt_tokens > self.input_tokens:
            most = {
                "input_tokens": self.input_tokens,
                "cache_read_tokens": 0,
                "cache_write_tokens": 0,
                "hour_write_tokens": 0,
                "is_estimate": True,
            }
        if told.output_tokens > (longest := max(self.output_tokens, said_bytes)):
            most |= {"output_tokens": longest, "reasoning_tokens": 0, "is_estimate": True}
        return told.model_copy(update=most)


def with_estimate(reply: Reply, prompt: Prompt, most: Most) -> Reply:
    """Return a reply whose tokens are known, by bytes where the server told none.

    Servers that count nothing report zeros: no prompt is read and nothing is said in 0 tokens.
    """
    said = "".join((reply.text, reply.reasoning, *(c.name + c.arguments for c in reply.calls)))
    said_bytes = max(len(said.encode()), len(reply.native.encode()))
    told = most.possible(reply.usage, said_bytes)
    estimate: dict[str, int | bool] = {}
    if not told.prompt_tokens:
        # No token is shorter than a byte, so this errs upwards only.
        estimate = {"input_tokens": prompt.bytes_sent, "is_estimate": True}
    if said and not told.output_tokens:
        estimate |= {"output_tokens": said_bytes, "is_estimate": True}
    return reply.model_copy(update={"usage": told.model_copy(update=estimate)})
