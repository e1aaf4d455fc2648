"""Writes exports: what `kernelwright export` and `kernelwright.export` share."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import field_validator

from kernelwright.errors import InputError, KernelwrightError
from kernelwright.ir.graph.nest import Given, Nest, leaves, made, missing
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export import (
    FORMATS,
    ExportedModule,
    ExportFolder,
    FormatName,
    export_into,
    export_target,
    function_kernels,
    require_gain,
)
from kernelwright.runtime.export.huggingface import VARIANT
from kernelwright.runtime.export.selection import check_name
from kernelwright.runtime.registry import registry
from kernelwright.service.export_source import (
    FunctionTarget,
    Warn,
    campaign_places,
    campaign_tasks,
    function_targets,
    lookup_in,
    tried_in,
)
from kernelwright.service.target_argument import is_function
from kernelwright.service.user_output import shown_once
from kernelwright.store import CandidateDetail, KernelStore

_PYTHON: tuple[FormatName, ...] = ("module", "package", "huggingface")
"""Formats that hand results back as the function does."""


class Exported(Record):
    """What was written."""

    name: str
    is_verified: bool
    remarks: tuple[str, ...] = ()
    """Sentences on what is not kept, such as a stream of the CPU."""
    files: tuple[str, ...]
    use: str
    """The line that imports it, or says how it is used."""


class ExportRequest(Record):
    """How to write what is exported."""

    folder: Path
    name: str | None
    format_name: FormatName
    force: bool
    slower: bool

    @field_validator("name")
    @classmethod
    def _names_a_module(cls, name: str | None) -> str | None:
        if name is not None:
            check_name(name)
        return name


def export_targets(
    store: KernelStore,
    targets: Sequence[str],
    inputs: Sequence[str],
    request: ExportRequest,
    warn: Warn,
) -> list[Exported]:
    """Export functions, or candidates by their ids, as on the command line.

    Raises:
        InputError: a target is not there, or nothing of it can be exported.
    """
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
        written = _of_candidates(store, details, request)
        remarks = [r for detail in details if (r := _on_results(detail, request.format_name))]
        return [written.model_copy(update={"remarks": (*written.remarks, *remarks)})]
    left_out: list[str] = []
    with shown_once(functions[0].partition(":")[0]):
        found = [f for t in functions for f in function_targets(t, inputs, store, left_out.append)]
    for sentence in left_out:
        warn(sentence)
    return export_functions(store, found, request, warn)


def export_functions(
    store: KernelStore, found: Sequence[FunctionTarget], request: ExportRequest, warn: Warn
) -> list[Exported]:
    """Export functions; of several, those that can be, with a warning for each other.

    Raises:
        InputError: not one can be exported; the message has a line for each.
        UnsupportedError: the only one cannot.
    """
    if len(found) > 1 and request.name is not None:
        raise InputError(
            f"expected one function for the name {request.name!r}, found {len(found)}; "
            "leave --name out."
        )
    with registry.without_kernels():
        if len(found) == 1:
            return _of_function(store, found[0], request)
        return _each(store, found, request, warn)


def _has_package(folder: Path, name: str) -> bool:
    """Say whether a folder is a package already, of something else than this name."""
    is_package = (folder / "pyproject.toml").exists() or (folder / VARIANT).exists()
    names = [folder / name, folder / "tests" / f"test_{name}.py"]
    return is_package and not any(path.exists() for path in names)


def _each(
    store: KernelStore, functions: Sequence[FunctionTarget], request: ExportRequest, warn: Warn
) -> list[Exported]:
    """Export what can be of several functions, and say what cannot."""
    written: list[Exported] = []
    errors: dict[str, KernelwrightError] = {}
    for function in functions:
        try:
            written += _of_function(store, function, request, is_alone=len(functions) == 1)
        except KernelwrightError as e:
            errors[function.name] = e
    reasons = [f"{name}: {e}" for name, e in errors.items()]
    if reasons and not written:
        raise InputError("\n  ".join(("nothing was written:", *reasons)))
    for reason in reasons:
        warn(reason)
    return written


def _of_function(
    store: KernelStore, target: FunctionTarget, request: ExportRequest, *, is_alone: bool = True
) -> list[Exported]:
    format_name = request.format_name
    wanted = request.name or target.name
    check_name(wanted)
    if format_name not in ("module", "package", "huggingface", "patch"):
        return _kernels_of(store, target, wanted, request)
    folder = request.folder
    name = ExportFolder(folder).name_for(
        wanted,
        target.identity,
        is_asked_for=request.name is not None,
        force=request.force,
    )
    # The function runs many times: traced, compared, tested.
    with shown_once(target.name):
        module = export_target(
            target.function,
            name,
            target.calls,
            lookup_in(store),
            identity=target.identity,
            layout=format_name,
            force=request.force,
            tried=tried_in(store, target.origin),
            owner=target.owner,
            called=target.called if request.name is None else "",
        )
    if format_name in ("package", "huggingface") and (
        not is_alone or _has_package(folder, module.name)
    ):
        # Each of several packages has a folder of its own; the index stays one.
        module = module.in_its_own_folder()
    return [_written(module, request)]


def _kernels_of(
    store: KernelStore, target: FunctionTarget, wanted: str, request: ExportRequest
) -> list[Exported]:
    """Write the kernels of a function in a format without Python; several have a folder each."""
    with shown_once(target.name):
        found = function_kernels(
            target.function,
            wanted,
            target.calls,
            lookup_in(store),
            force=request.force,
            tried=tried_in(store, target.origin),
            owner=target.owner,
        )
    several = len(found.details) > 1
    written = []
    for number, detail in enumerate(found.details, 1):
        name = f"{wanted}_{number}" if several else wanted
        named = request.model_copy(update={"name": name})
        written.append(_of_candidates(store, [detail], named, is_alone=not several))
    if several or not found.are_whole:
        written[-1] = written[-1].model_copy(update={"remarks": (_part_of(target, request),)})
    return written


def _part_of(target: FunctionTarget, request: ExportRequest) -> str:
    return (
        f"--format {request.format_name} holds the kernels of {target.name}, not the views, casts "
        "and other steps of MLX's around them: VERIFICATION.md says what each takes and gives; "
        "--format module takes the whole function."
    )


def _of_candidates(
    store: KernelStore,
    details: Sequence[CandidateDetail],
    request: ExportRequest,
    *,
    is_alone: bool = True,
) -> Exported:
    module = export_into(
        request.folder, request.format_name, details, name=request.name, force=request.force
    )
    if not is_alone:
        module = module.in_its_own_folder()
    return _written(module, request)


def _on_results(detail: CandidateDetail, format_name: FormatName) -> str:
    """Say what a kernel's results are where they are not just what its function returns."""
    types, results = detail.graph.output_types, detail.graph.results
    is_part = isinstance(results, Nest) and results.kind == "part"
    if results is not None and not is_part:
        return "" if format_name in _PYTHON else _on_shapes(detail)
    kernel, advice = (
        f"The kernel {detail.candidate.id[:8]}",
        ("export FILE.py:function in place of an id for what the function returns."),
    )
    absent = missing(results)
    if len(types) == 1:
        return f"{kernel} does not return {absent}; {advice}" if absent else ""
    ordered = [types[leaf.place] for leaf in made(results)] or types
    listed = ", ".join(map(str, ordered))
    order = "those of its function first" if is_part else "in an order of its own"
    without = f", and not {absent}" if absent else ""
    return f"{kernel} returns {len(types)} results, {order}: {listed}{without}; {advice}"


def _on_shapes(detail: CandidateDetail) -> str:
    """Say what a kernel alone leaves to its caller: other shapes, and inputs as they are."""
    results = detail.graph.results
    found = [leaf.views[-1].shape for leaf in made(results) if leaf.views]
    shapes = ", ".join(str(list(shape)) for shape in found)
    kernel = f"results of the kernel {detail.candidate.id[:8]} in other shapes, {shapes}"
    has_given = any(isinstance(leaf, Given) for leaf in leaves(results))
    left = [*([kernel] if found else []), *(["inputs, or views of them"] if has_given else [])]
    if not left:
        return ""
    return (
        f"{detail.candidate.task.name} returns {', and '.join(left)}, which this format leaves to "
        "you; VERIFICATION.md says what the kernel gives."
    )


def export_campaign(
    store: KernelStore, prefix: str, request: ExportRequest, warn: Warn
) -> list[Exported]:
    """Export the functions of a campaign, and what is found of no function as kernels.

    Raises:
        InputError: there is no such campaign, or nothing of it can be exported.
    """
    if request.name is not None:
        raise InputError("expected no --name for a campaign: each function has its own.")
    functions: list[FunctionTarget] = []
    for place in campaign_places(store, prefix):
        try:
            functions += function_targets(place, [], store, warn)
        except KernelwrightError as e:
            warn(f"{place}: {e}")
    if written := _each(store, functions, request, warn):
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


def _written(module: ExportedModule, request: ExportRequest) -> Exported:
    paths = module.write(request.folder, force=request.force)
    files = tuple(map(str, paths))
    use = module.use or FORMATS[request.format_name].use(module.name)
    return Exported(
        name=module.name,
        is_verified=module.is_verified,
        files=files,
        use=use.replace("FOLDER", str(request.folder)),
        remarks=module.remarks,
    )
