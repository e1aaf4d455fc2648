"""`kernelwright export`: functions and kernels as code for another project."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelwright.errors import UsageError
from kernelwright.runtime.export import FormatName
from kernelwright.service.console import console, error_console
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.service.target_argument import is_function, require_targets

if TYPE_CHECKING:
    from kernelwright.service.exporting import Exported, ExportRequest


def export(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.py:FUNCTION|ID...",
            help="A function with all its kernels, or the first digits of a candidate's id; "
            "several ids for a package.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The folder to write to.", show_default=False),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(help="Export every function of a campaign, by its id.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The module's name; the function's by default.", show_default=False),
    ] = None,
    format_name: Annotated[FormatName, typer.Option("--format", help="What to write.")] = "module",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Export what is not verified, and overwrite files that are not ours."
        ),
    ] = False,
    slower: Annotated[
        bool, typer.Option("--slower", help="Export kernels by id that MLX is faster than.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write code that needs no Kernelwright, proven equal to the original, and VERIFICATION.md."""
    from kernelwright.store import KernelStore

    if output is None:
        raise UsageError("expected a folder to write to; add -o, such as -o vendored/.")
    if not targets and campaign is None:
        raise UsageError("expected FILE.py:function, a candidate's id, or --campaign ID.")
    require_targets(targets or [])
    with KernelStore(store, must_exist=True) as opened:
        for target in targets or ():
            # An id that is not there is told before MLX is loaded.
            if not is_function(target):
                opened.show(target)
        from kernelwright.service.exporting import ExportRequest, export_campaign, export_targets

        request = ExportRequest(
            folder=output, name=name, format_name=format_name, force=force, slower=slower
        )
        if campaign is not None:
            written = export_campaign(opened, campaign, request, _warn)
        else:
            written = export_targets(opened, targets or [], inputs or [], request, _warn)
    if json:
        print_json(written if len(written) > 1 else written[0])
        return
    _show(written, request)


def _warn(sentence: str) -> None:
    error_console().print(sentence, style="warn", soft_wrap=True)


def _show(written: "Sequence[Exported]", request: "ExportRequest") -> None:
    printed = console()
    for exported in written:
        for path in exported.files:
            printed.print(Text.assemble(("wrote ", "label"), path))
    if not all(exported.is_verified for exported in written):
        printed.print("This kernel is not verified; the files say so.", style="warn")
    for remark in (r for exported in written for r in exported.remarks):
        _warn(remark)
    for exported in written:
        printed.print(Text.assemble(("use   ", "label"), (exported.use, "command")))
    tests = [f for e in written for f in e.files if Path(f).match("test_*.py")]
    if tests:
        printed.print(Text.assemble(("test  ", "label"), (f"pytest {request.folder}", "command")))
