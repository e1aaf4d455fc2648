"""`kernelwright campaign init`: a commented file to start from."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.campaign.spec.campaign_file import template
from kernelwright.errors import InputError
from kernelwright.service.console import console


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Where to.")] = Path(
        "nightly.toml"
    ),
) -> None:
    """Write a commented file to start from."""
    try:
        with path.open("x") as file:
            file.write(template(path))
    except FileExistsError as e:
        raise InputError(f"{path} exists already; name another file.") from e
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror}.") from e
    console().print(Text.assemble(("wrote ", "label"), str(path)))
    console().print(
        Text.assemble(("next  ", "label"), (f"kernelwright campaign check {path}", "command"))
    )
