"""`kernelwright campaign init`: a commented file to start from."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.campaign.spec.campaign_file import template
from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.service.console import console


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Where to.")] = Path(
        "nightly.toml"
    ),
) -> None:
    """Write a commented file to start from."""
    if path.exists():
        raise InputError(f"{path} exists already; name another file.")
    write_file(path, template(path))
    console().print(Text.assemble(("wrote ", "label"), str(path)))
    console().print(
        Text.assemble(("next  ", "label"), (f"kernelwright campaign check {path}", "command"))
    )
