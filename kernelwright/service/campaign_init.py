"""`kernelwright campaign init`: a commented file to start from."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, Written, print_json


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Where to.")] = Path(
        "nightly.toml"
    ),
    json: JsonOption = False,
) -> None:
    """Write a commented file to start from."""
    from kernelwright.campaign.spec.campaign_file import template

    if path.exists():
        raise InputError(f"{path} exists already; name another file.")
    write_file(path, template(path))
    if json:
        print_json(Written(path=str(path)))
        return
    console().print(Text.assemble(("wrote ", "label"), str(path)))
    console().print(
        Text.assemble(("next  ", "label"), (f"kernelwright campaign check {path}", "command"))
    )
