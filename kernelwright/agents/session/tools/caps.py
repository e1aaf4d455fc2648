"""How much a conversation may have its tools do."""

from pydantic import Field

from kernelwright.metal.diagnostic import Record


class ToolCaps(Record):
    """How much one conversation may have its tools do."""

    calls: int = Field(default=80, ge=1)
    evaluations: int = Field(default=24, ge=0)
    turns: int = Field(default=40, ge=1)
    idle_turns: int = Field(default=3, ge=1)
    """Turns in a row without one tool call that can be carried out."""
