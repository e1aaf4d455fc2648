"""`kernelwright export`: kernels as code for another project."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export import FORMATS, FormatName, export_as
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.store import KernelStore


class _Exported(Record):
    """What was written."""

    name: str
    is_verified: bool
    files: tuple[str, ...]


def export(
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="The first digits of an id; several for a package."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")],
    name: Annotated[
        str | None,
        typer.Option(help="The function's name; the task's by default.", show_default=False),
    ] = None,
    format_name: Annotated[FormatName, typer.Option("--format", help="What to write.")] = "module",
    force: Annotated[
        bool, typer.Option("--force", help="Export what is not verified; the files say so.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write code that needs no Kernelwright, and VERIFICATION.md."""
    with KernelStore(store, must_exist=True) as opened:
        details = [opened.show(candidate) for candidate in candidates]
    module = export_as(format_name, details, name=name, force=force)
    paths = module.write(output)
    if json:
        files = tuple(map(str, paths))
        print_json(_Exported(name=module.name, is_verified=module.is_verified, files=files))
        return
    printed = console()
    for path in paths:
        printed.print(Text.assemble(("wrote ", "label"), str(path)))
    if not module.is_verified:
        printed.print("This kernel is not verified; the files say so.", style="warn")
    printed.print(
        Text.assemble(("use   ", "label"), (FORMATS[format_name].use(module.name), "command"))
    )
    if any(Path(file.name).name.startswith("test_") for file in module.files):
        printed.print(Text.assemble(("test  ", "label"), (f"pytest {output}", "command")))
