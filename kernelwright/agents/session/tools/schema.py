"""The arguments of every tool as records; their schemas are what a provider is told."""

from collections.abc import Sequence

from pydantic import BaseModel

from kernelwright.agents.message import Tool
from kernelwright.agents.roles.reply_schema import Draft, ProgramDraft
from kernelwright.agents.session.parse import schema_of


class Check(Draft):
    """Compile, sanitize and compare a new program with the reference; its name is d1, then d2."""

    program: ProgramDraft


class TextEdit(Draft):
    """One replacement. `search` occurs exactly once in the part, white space included."""

    kernel: str
    """The kernel's name; empty where the part is `launch`."""
    part: str
    """`source`, `header`, or `launch`: the program's JSON without its texts."""
    search: str
    replace: str


class Edit(Draft):
    """Make a new draft from an earlier one by replacing pieces of its text, and check it."""

    draft: str
    edits: list[TextEdit]


class TunableValue(Draft):
    """A value for an integer that the draft leaves open."""

    name: str
    value: int


class Measure(Draft):
    """Say where the time of a checked draft goes: parts in microseconds, traffic by array."""

    draft: str
    tunables: list[TunableValue]


class StatedInput(Draft):
    """How one input is filled: `normal`, `uniform`, `constant` or `range`, scaled by `value`."""

    fill: str
    value: str


class Reference(Draft):
    """Show what the reference computes from inputs that you state, from element `start` on."""

    draw: int
    """Another number draws other values."""
    inputs: list[StatedInput]
    output: int
    start: int
    count: int


class Show(Draft):
    """Show a program: a draft, an id, `best`, `template`, or `mlx` for what MLX launches."""

    what: str
    from_line: int


class Submit(Draft):
    """Propose a draft, or a new program, for the whole evaluation; its verdict is the answer."""

    draft: str
    """Empty where a program is given."""
    program: ProgramDraft | None


class Done(Draft):
    """End the conversation, because nothing that is left is worth its cost."""

    because: str


ARGUMENTS: dict[str, type[BaseModel]] = {
    "check": Check,
    "edit": Edit,
    "measure": Measure,
    "reference": Reference,
    "show": Show,
    "submit": Submit,
    "done": Done,
}


WITHOUT_TRIALS = ("submit", "done")
"""The tools of a model that writes blind: what it submits is all that is tried."""


def tools(names: Sequence[str] = ()) -> tuple[Tool, ...]:
    """Return the tools of an engineer's conversation, all where none is named."""
    return tuple(
        Tool(name=name, description=(shape.__doc__ or "").strip(), json_schema=schema_of(shape))
        for name, shape in ARGUMENTS.items()
        if not names or name in names
    )
