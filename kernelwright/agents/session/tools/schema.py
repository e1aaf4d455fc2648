"""The arguments of every tool as records; their schemas are what a provider is told."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from kernelwright.agents.message import Tool
from kernelwright.agents.roles.reply.reply_schema import Draft, ProgramDraft
from kernelwright.agents.session.parse import schema_of


class Check(Draft):
    """Compile, sanitize and compare a new program with the reference; its name is d1, then d2."""

    program: ProgramDraft


class TextEdit(Draft):
    """One replacement. Edits apply one after another, each to what the one before it made."""

    kernel: str = ""
    """The kernel's name; may be empty for `launch`, or where there is one kernel."""
    part: Literal["source", "header", "launch"]
    """A kernel's `source` or `header`, or `launch`: the program's JSON without those texts, as
    `show` prints it."""
    search: str = ""
    """Occurs exactly once in the part, white space included; empty to fill an empty header."""
    replace: str
    """What stands there instead; empty deletes."""


class Edit(Draft):
    """Make a new draft from an earlier one by replacing pieces of its text, and check it."""

    draft: str
    """What to start from: a draft such as d1, a program's id, or `best`; it stays as it is."""
    edits: list[TextEdit]
    """At least one."""


class TunableValue(Draft):
    """A value for an integer that the draft leaves open."""

    name: str
    """One of the draft's tunables."""
    value: int
    """One of its choices."""


class Measure(Draft):
    """Say where the time of a checked draft goes: parts in microseconds, traffic by array, line."""

    draft: str
    """A draft that is right, such as d1, an earlier program's id, or `best`."""
    tunables: list[TunableValue] = Field(default_factory=list)
    """Values other than the draft's own, which cost an evaluation; empty for its own."""


class StatedInput(Draft):
    """How one input is filled."""

    fill: Literal["normal", "uniform", "constant", "range"]
    """`normal`: random around 0. `uniform`: random from 0 to 1. `range`: 0, 1, 2 and so on. These
    are multiplied by `value`. `constant`: `value` everywhere."""
    value: str
    """A number as text, or `nan`, `inf`, `-inf`."""


class Reference(Draft):
    """Show what the reference computes from inputs that you state, and those inputs.

    Elements are counted in memory order over the whole array.
    """

    draw: int
    """Any whole number from 0, the seed of what is random: the same number draws the same."""
    inputs: list[StatedInput]
    """One for each of the task's inputs, in order."""
    output: int
    """Which output, from 0."""
    start: int
    """The first element to show, from 0."""
    count: int
    """How many elements to show, at most 64."""


class Show(Draft):
    """Show a program, what MLX launches, or the task's whole graph."""

    what: str
    """A draft such as d1; a program's id; `best`, or `template`, the best one from a template, once
    there is one; `mlx`; `graph`."""
    from_line: int = 1
    """The first of up to 150 lines, from 1. Lines in errors count from 1 within the text that they
    name."""


class Submit(Draft):
    """Propose a program for the whole evaluation; its verdict is the answer."""

    draft: str = ""
    """Name of the draft to submit; empty where `program` holds a new one."""
    program: ProgramDraft | None = None
    """A whole new program, as `check` takes it; null where `draft` names one."""


class Done(Draft):
    """End the conversation, because nothing that is left is worth its cost."""

    because: str
    """The reason, in a sentence."""


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
    offered = [name for name in ARGUMENTS if not names or name in names]
    # What a program consists of is described once: the opening of a conversation is short.
    again = {"submit"} if "check" in offered else set()
    return tuple(
        Tool(
            name=name,
            description=_description(ARGUMENTS[name]),
            json_schema=_terse(schema_of(ARGUMENTS[name]), is_terse=name in again),
        )
        for name in offered
    )


def _terse(schema: dict[str, object], *, is_terse: bool) -> dict[str, object]:
    """Leave out what a schema says of the records in it, if asked to."""
    if not is_terse:
        return schema
    return {key: _bare(value) if key == "$defs" else value for key, value in schema.items()}


def _bare(node: object) -> object:
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value) for key, value in node.items() if key != "description"}


def _description(shape: type[BaseModel]) -> str:
    return " ".join((shape.__doc__ or "").split())
