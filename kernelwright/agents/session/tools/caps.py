"""How much a conversation may have its tools do."""

from pydantic import Field

from kernelwright.metal.diagnostic import Record


class ToolCaps(Record):
    """How much one conversation may have its tools do."""

    calls: int = Field(default=80, ge=1, strict=True)
    evaluations: int = Field(default=24, ge=0, strict=True)
    turns: int = Field(default=40, ge=1, strict=True)
    idle_turns: int = Field(default=3, ge=1, strict=True)
    """Turns in a row without one tool call that can be carried out."""
