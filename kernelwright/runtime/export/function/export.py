"""The one door: a function with its champions, proven equal to the original, as files."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from kernelwright.errors import KernelwrightError
from kernelwright.ir.trace.capture import capture_labelled
from kernelwright.runtime.export.folder import SHARED, ExportedFile
from kernelwright.runtime.export.format import ExportedModule
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.arguments_code import imported_name
from kernelwright.runtime.export.function.function_export import (
    FunctionFiles,
    Tried,
    export_function,
)
from kernelwright.runtime.export.function.patch_file import patch_of
from kernelwright.runtime.export.function.proof import Check, is_proven, prove
from kernelwright.runtime.export.function.stub_code import stub_text
from kernelwright.runtime.export.function.test_code import function_tests
from kernelwright.runtime.export.function.variant import Lookup, Variant
from kernelwright.runtime.export.function.verification_code import function_verification
from kernelwright.runtime.export.huggingface import loading_line, repository_files
from kernelwright.runtime.export.license_text import license_text
from kernelwright.runtime.export.package import pyproject_text
from kernelwright.runtime.export.selection import (
    fits_metal,
    hidden_character,
    is_verified,
    verdict_of,
)
from kernelwright.store import CandidateDetail

Layout = Literal["module", "package", "huggingface", "patch"]


def export_target(
    function: Callable[..., object],
    name: str,
    calls: Sequence[ExampleCall],
    lookup: Lookup,
    *,
    identity: str,
    layout: Layout = "module",
    force: bool = False,
    tried: Tried = lambda tasks: "",
    owner: str = "",
    called: str = "",
) -> ExportedModule:
    """Turn a function whose calls have champions into a module or package.

    Args:
        function: the user's, or a method of an object of theirs.
        name: of the module, and of the function or object in it.
        calls: examples; those with champions are served.
        lookup: finds kernels.
        identity: what tells this function from another of the same name.
        layout: a module with its data beside it, a package that pip installs, a repository
            for Hugging Face's `kernels`, or a patch of the user's file.
        force: also take kernels that are not verified, and what differs from the original.
        tried: says what became of candidates where there is no champion.
        owner: the object whose method it is; it keeps this name.
        called: how people call the function, such as `Ops.mish`; by its name if empty.

    Raises:
        InputError: no call has a champion, or what was printed differs from the original.
        UnsupportedError: the function cannot stand in a module of its own.
    """
    export = export_function(
        function,
        name,
        calls,
        lookup,
        admits=partial(_may_leave, force=force),
        tried=tried,
        owner=owner,
        called=called,
    )
    details = export.module.details
    limit = max(d.evaluations[0].evaluation.device.threadgroup_bytes for d in details)
    checks = prove(export, function, limit, is_strict=not force)
    remarks = _remarks(function, [served.example for served in export.calls])
    files = _laid_out(export, function, (checks, remarks), layout)
    imported = imported_name(export.module.source)
    return ExportedModule(
        name=name,
        files=files,
        is_verified=all(map(is_verified, details)) and is_proven(checks),
        identity=identity,
        title=f"`{export.module.title}`",
        kind=layout,
        use=_use(layout, name, imported),
        remarks=remarks,
    )


@dataclass(frozen=True)
class FunctionKernels:
    """The kernels of a function's calls, for formats that hold kernels and no Python."""

    details: tuple[CandidateDetail, ...]
    are_whole: bool
    """Each computes all that a call of the function does, views and casts included."""


def function_kernels(
    function: Callable[..., object],
    name: str,
    calls: Sequence[ExampleCall],
    lookup: Lookup,
    *,
    force: bool = False,
    tried: Tried = lambda tasks: "",
    owner: str = "",
) -> FunctionKernels:
    """Return the kernels that an export of the function would launch, each once.

    Raises:
        InputError: no call has a champion.
        UnsupportedError: the function cannot be taken along with kernels.
    """
    admits = partial(_may_leave, force=force)
    module = export_function(
        function, name, calls, lookup, admits=admits, tried=tried, owner=owner
    ).module
    details = {d.candidate.id: d for d in module.details}
    return FunctionKernels(tuple(details.values()), all(map(_is_whole, module.variants)))


def _is_whole(variant: Variant) -> bool:
    task = next(iter(variant.kernels.values())).graph
    graph = variant.traced.graph
    return (
        len(variant.kernels) == 1
        and task.input_types == graph.input_types
        and task.output_types == graph.output_types
    )


def _remarks(function: Callable[..., object], calls: Sequence[ExampleCall]) -> tuple[str, ...]:
    """Say what kernels do not keep of a function, as its search did."""
    found: dict[str, None] = {}
    for call in calls:
        with suppress(KernelwrightError):
            capture_labelled(function, call.args, call.kwargs, found.setdefault)
    return tuple(found)


def _use(layout: Layout, name: str, imported: str) -> str:
    if layout == "patch":
        return f"git apply FOLDER/{imported}.patch"
    if layout == "huggingface":
        return loading_line(imported)
    return f"from {name} import {imported}"


def _laid_out(
    export: FunctionFiles,
    function: Callable[..., object],
    known: tuple[Sequence[Check], Sequence[str]],
    layout: Layout,
) -> tuple[ExportedFile, ...]:
    name = export.module.name
    tests = function_tests(export, function)
    said = function_verification(export.module, *known, is_patch=layout == "patch")
    verification = ExportedFile(name=SHARED, text=said)
    if layout == "patch":
        source = export.module.source
        public = imported_name(source)
        return (patch_of(function, public, export.files), verification)
    if layout == "module":
        tested = [ExportedFile(name=f"test_{name}.py", text=tests)] if tests else []
        return (*export.files, *tested, verification)
    moved = [
        f.model_copy(
            update={"name": f"{name}/{'__init__.py' if f.name == f'{name}.py' else f.name}"}
        )
        for f in export.files
    ]
    tested = [ExportedFile(name=f"tests/test_{name}.py", text=tests)] if tests else []
    needs_numpy = export.module.source.needs_numpy
    project = pyproject_text(name, f"{name} with Metal kernels for MLX.", needs_numpy=needs_numpy)
    package = (
        ExportedFile(name="pyproject.toml", text=project),
        ExportedFile(name="LICENSE", text=license_text(holds_function=True)),
        ExportedFile(name=f"{name}/py.typed"),
        ExportedFile(name=f"{name}/__init__.pyi", text=stub_text(export.module, function)),
        *moved,
        *tested,
        verification,
    )
    if layout == "package":
        return package
    public = imported_name(export.module.source)
    return repository_files(name, package, public=public, needs_numpy=needs_numpy)


def _may_leave(detail: CandidateDetail, *, force: bool) -> bool:
    evaluation = verdict_of(detail)
    beats_mlx = evaluation is not None and evaluation.beats_mlx
    if hidden_character(detail.program) is not None:
        return False
    return force or (is_verified(detail) and fits_metal(detail) and beats_mlx)
