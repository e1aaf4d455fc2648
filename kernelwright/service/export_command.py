"""`kernelwright export`: functions and kernels as code for another project."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.errors import InputError, KernelwrightError
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export import (
    FORMATS,
    ExportedModule,
    ExportFolder,
    FormatName,
    export_into,
    export_target,
    require_gain,
)
from kernelwright.service.console import console, error_console
from kernelwright.service.export_source import (
    FunctionTarget,
    campaign_places,
    campaign_tasks,
    function_targets,
    is_function,
    lookup_in,
)
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.store import CandidateDetail, KernelStore


class _Exported(Record):
    """What was written."""

    name: str
    is_verified: bool
    files: tuple[str, ...]


class _Request(Record):
    """How to write what is exported."""

    folder: Path
    name: str | None
    format_name: FormatName
    force: bool
    slower: bool


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
    if output is None:
        raise InputError("expected a folder to write to; add -o, such as -o vendored/.")
    if not targets and campaign is None:
        raise InputError("expected FILE.py:function, a candidate's id, or --campaign ID.")
    request = _Request(
        folder=output, name=name, format_name=format_name, force=force, slower=slower
    )
    with KernelStore(store, must_exist=True) as opened:
        if campaign is not None:
            written = _of_campaign(opened, campaign, request)
        else:
            written = _of_targets(opened, targets or [], inputs or [], request)
    if json:
        print_json(written if len(written) > 1 else written[0])
        return
    _show(written, request)


def _of_targets(
    store: KernelStore, targets: Sequence[str], inputs: Sequence[str], request: _Request
) -> list[_Exported]:
    functions = [t for t in targets if is_function(t)]
    if functions and len(functions) != len(targets):
        raise InputError(
            f"expected functions or ids, found {functions[0]!r} beside ids; export them apart."
        )
    if not functions:
        details = [store.show(t) for t in targets]
        if not (request.slower or request.force):
            for detail in details:
                require_gain(detail)
        return [_of_candidates(store, details, request)]
    found = [f for t in functions for f in function_targets(t, inputs, store)]
    if len(found) > 1 and request.name is not None:
        raise InputError(
            f"expected one function for the name {request.name!r}, found {len(found)}; "
            "leave --name out."
        )
    if len(found) == 1:
        return _of_function(store, found[0], request)
    return _each(store, found, request)


def _each(
    store: KernelStore, functions: Sequence[FunctionTarget], request: _Request
) -> list[_Exported]:
    """Export what can be of several functions, and say what cannot."""
    written: list[_Exported] = []
    errors: list[KernelwrightError] = []
    for function in functions:
        try:
            written += _of_function(store, function, request)
        except KernelwrightError as e:
            error_console().print(f"{function.name}: {e}", style="warn", soft_wrap=True)
            errors.append(e)
    if errors and not written:
        raise errors[0]
    return written


def _of_function(store: KernelStore, target: FunctionTarget, request: _Request) -> list[_Exported]:
    format_name = request.format_name
    if format_name not in ("module", "package"):
        raise InputError(
            f"--format {format_name} takes a candidate's id, found the function {target.name!r}; "
            "`kernelwright best` lists the ids."
        )
    wanted = request.name or target.name
    folder = request.folder
    if format_name == "package" and request.name is None and (folder / "pyproject.toml").exists():
        folder = folder / wanted
    module = export_target(
        target.function,
        ExportFolder(folder).free_name(wanted, target.origin),
        target.calls,
        lookup_in(store),
        identity=target.origin,
        layout="package" if format_name == "package" else "module",
        force=request.force,
    )
    return [_written(module, folder, force=request.force)]


def _of_candidates(
    store: KernelStore, details: Sequence[CandidateDetail], request: _Request
) -> _Exported:
    module = export_into(
        request.folder, request.format_name, details, name=request.name, force=request.force
    )
    return _written(module, request.folder, force=request.force)


def _of_campaign(store: KernelStore, prefix: str, request: _Request) -> list[_Exported]:
    """Export the functions of a campaign, and what is found of no function as kernels."""
    if request.name is not None:
        raise InputError("expected no --name for a campaign: each function has its own.")
    functions: list[FunctionTarget] = []
    for place in campaign_places(store, prefix):
        try:
            functions += function_targets(place, [], store)
        except KernelwrightError as e:
            error_console().print(f"{place}: {e}", style="warn", soft_wrap=True)
    if written := _each(store, functions, request):
        return written
    tasks = campaign_tasks(store, prefix)
    kernels = {s.champion.candidate_id for s in store.standings() if s.champion.task.id in tasks}
    details = [store.show(k) for k in sorted(kernels)]
    gaining = [d for d in details if request.force or _beats_mlx(d)]
    written = [_of_candidates(store, [detail], request) for detail in gaining]
    if not written and details:
        raise InputError(
            f"MLX is best for all that campaign {prefix} searched; nothing was written. "
            "Add --force to export the kernels all the same."
        )
    if not written:
        raise InputError(f"campaign {prefix} has no champions; nothing was written.")
    return written


def _beats_mlx(detail: CandidateDetail) -> bool:
    return not detail.evaluations or detail.evaluations[0].evaluation.beats_mlx


def _written(module: ExportedModule, folder: Path, *, force: bool) -> _Exported:
    paths = module.write(folder, force=force)
    files = tuple(map(str, paths))
    return _Exported(name=module.name, is_verified=module.is_verified, files=files)


def _show(written: Sequence[_Exported], request: _Request) -> None:
    printed = console()
    for exported in written:
        for path in exported.files:
            printed.print(Text.assemble(("wrote ", "label"), path))
    if not all(exported.is_verified for exported in written):
        printed.print("This kernel is not verified; the files say so.", style="warn")
    for exported in written:
        use = FORMATS[request.format_name].use(exported.name)
        printed.print(Text.assemble(("use   ", "label"), (use, "command")))
    if any(Path(file).name.startswith("test_") for e in written for file in e.files):
        printed.print(Text.assemble(("test  ", "label"), (f"pytest {request.folder}", "command")))
