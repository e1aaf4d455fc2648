"""Token counts as servers report them: some are missing, and some are no counts."""

from dataclasses import dataclass

from kernelwright.agents.message import Prompt, Reply, Usage

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


def with_estimate(reply: Reply, prompt: Prompt) -> Reply:
    """Return a reply whose tokens are known, by bytes where the server told none.

    Servers that count nothing report zeros: no prompt is read and nothing is said in 0 tokens.
    """
    told = reply.usage
    said = "".join((reply.text, reply.reasoning, *(c.name + c.arguments for c in reply.calls)))
    if told.prompt_tokens and (told.output_tokens or not said):
        return reply
    # No token is shorter than a byte, so this errs upwards only.
    estimate: dict[str, int | bool] = {"is_estimate": True}
    if not told.prompt_tokens:
        estimate["input_tokens"] = prompt.bytes_sent
    if not told.output_tokens:
        estimate["output_tokens"] = max(len(said.encode()), len(reply.native.encode()))
    return reply.model_copy(update={"usage": told.model_copy(update=estimate)})
