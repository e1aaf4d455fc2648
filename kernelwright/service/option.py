"""The options that several commands share, and how a result is printed as JSON."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import TypeAdapter

from kernelwright.errors import InputError, UsageError
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.threadgroup_memory import read_size
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import PROFILES, find_profile
from kernelwright.printable import printable_json
from kernelwright.validation import MOST_JOBS

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="KERNELWRIGHT_STORE",
        help="A path or any SQLAlchemy URL; the default is in your data directory.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    DeviceName | None,
    typer.Option(
        help="Where candidates run.", show_default="what the machine has: metal, cuda or simulator"
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_JOBS,
        help="Candidates to evaluate at once; by the machine's cores and memory if not given.",
        show_default=False,
    ),
]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[CAMPAIGN]", help="An id's first digits, or a name; the latest."),
]
FleetOption = Annotated[
    bool,
    typer.Option("--fleet", help="Let the workers of the store's fleet evaluate."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Whom to ask: anthropic:NAME, openai:NAME, openai-responses:NAME, openai-chat:NAME, "
        "anthropic-batch:NAME or openai-batch:NAME, each with @low, @high, … for an effort; "
        "replay:CAMPAIGN or none; "
        "repeat for models that share the work and step in for each other.",
        show_default="none",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="Where the models are served, such as http://127.0.0.1:8080/v1.",
        show_default=False,
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(min=0, help="The most dollars that models may cost.", show_default=False),
]
TokensOption = Annotated[
    int | None,
    typer.Option(min=1, help="The most tokens that models may use.", show_default=False),
]
CallsOption = Annotated[
    int | None, typer.Option(min=1, help="The most calls to models.", show_default=False)
]


def _size(text: str | int) -> int:
    """Read an option's text; its default is a number."""
    try:
        return text if isinstance(text, int) else read_size(text)
    except InputError as e:
        raise UsageError(str(e)) from e


ThreadgroupMemoryOption = Annotated[
    int,
    typer.Option(
        "--threadgroup-memory",
        metavar="SIZE",
        parser=_size,
        help="What a threadgroup may take, such as 96K: up to 227K on cuda and the simulator; what "
        "needs more than 32K runs on no Mac.",
        show_default="32K",
    ),
]


def read_chip(text: str | None) -> str | None:
    """Read a chip's name."""
    try:
        return None if text is None else find_profile(text).name
    except InputError as e:
        raise UsageError(str(e)) from e


def read_chips(texts: list[str] | None) -> list[str] | None:
    """Read the names of several chips."""
    return None if texts is None else [name for text in texts if (name := read_chip(text))]


ChipOption = Annotated[
    str | None,
    typer.Option(
        "--chip",
        envvar="KERNELWRIGHT_CHIP",
        metavar="CHIP",
        callback=read_chip,
        help=f"Whose time is predicted, and on the simulator whose schedules are tried: "
        f"{', '.join(PROFILES)}.",
        show_default="m4-pro, or the machine's own GPU",
    ),
]
ShownChipOption = Annotated[
    str | None,
    typer.Option(
        "--chip",
        envvar="KERNELWRIGHT_CHIP",
        metavar="CHIP",
        callback=read_chip,
        help=f"Whose predicted time is shown; it leaves no row out: {', '.join(PROFILES)}.",
        show_default="m4-pro, or the machine's own GPU",
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="The most rows to print.")]


class Said(Record):
    """One sentence of a command that runs until it is told to end."""

    sentence: str


class Written(Record):
    """A file that a command wrote."""

    path: str


def print_json_line(record: Record) -> None:
    """Write a record as one line at once, for who reads along while a command runs."""
    sys.stdout.write(printable_json(record.model_dump_json()) + "\n")
    sys.stdout.flush()


def print_json(result: Record | Sequence[Record]) -> None:
    """Write a record, or a list of them, to standard output."""
    if isinstance(result, Record):
        text = result.model_dump_json(indent=2)
    else:
        adapter = TypeAdapter(list[Record])
        text = adapter.dump_json(list(result), indent=2, serialize_as_any=True).decode()
    sys.stdout.write(printable_json(text) + "\n")
