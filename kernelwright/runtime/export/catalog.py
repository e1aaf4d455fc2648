"""The formats by name, and the one door to them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.errors import InputError
from kernelwright.runtime.export.cpp import CppFormat
from kernelwright.runtime.export.folder import ExportFolder
from kernelwright.runtime.export.format import ExportedModule, Format
from kernelwright.runtime.export.format_name import FormatName
from kernelwright.runtime.export.huggingface import HuggingFaceFormat
from kernelwright.runtime.export.metal_text import MetalFormat
from kernelwright.runtime.export.mlxfn import MlxfnFormat
from kernelwright.runtime.export.module import ModuleFormat
from kernelwright.runtime.export.package import PackageFormat
from kernelwright.runtime.export.selection import select
from kernelwright.runtime.export.swift import SwiftFormat
from kernelwright.store import CandidateDetail

FORMATS: Mapping[FormatName, Format] = {
    "module": ModuleFormat(),
    "package": PackageFormat(),
    "metal": MetalFormat(),
    "mlxfn": MlxfnFormat(),
    "swift": SwiftFormat(),
    "cpp": CppFormat(),
    "huggingface": HuggingFaceFormat(),
}
"""Those that take kernels by id."""


def export_as(
    format_name: FormatName,
    details: Sequence[CandidateDetail],
    *,
    name: str | None = None,
    force: bool = False,
) -> ExportedModule:
    """Turn candidates into an export.

    Raises:
        InputError: one is not verified or was revoked, or the format takes one kernel only.
        UnsupportedError: a kernel cannot be expressed in the format.
    """
    format_ = FORMATS.get(format_name)
    if format_ is None:
        raise InputError(
            f"--format {format_name} takes a function, and a candidate is one kernel; export the "
            "function that it is for, such as FILE.py:function."
        )
    if len(details) != 1 and not format_.takes_several:
        raise InputError(
            f"--format {format_name} takes one kernel, found {len(details)}; pick one."
        )
    first = select(details[0], name=name, force=force)
    selections = [first, *(select(d, name=first.name, force=force) for d in details[1:])]
    return ExportedModule(
        name=first.name,
        is_verified=all(chosen.is_verified for chosen in selections),
        files=format_.files(selections),
        identity=identity_of(details),
        title=_title(details),
        kind=format_name,
    )


def export_into(
    folder: Path,
    format_name: FormatName,
    details: Sequence[CandidateDetail],
    *,
    name: str | None = None,
    force: bool = False,
) -> ExportedModule:
    """Turn candidates into an export under a name that no other export of a folder has.

    Raises:
        InputError: as `export_as`, or a name that was asked for is taken.
        UnsupportedError: a kernel cannot be expressed in the format.
    """
    module = export_as(format_name, details, name=name, force=force)
    is_asked_for = name is not None
    free = ExportFolder(folder).name_for(
        module.name, module.identity, is_asked_for=is_asked_for, force=force
    )
    if free == module.name:
        return module
    return export_as(format_name, details, name=free, force=force)


def identity_of(details: Sequence[CandidateDetail]) -> str:
    """Return what makes two exports one: the tasks, whichever kernel is best by now."""
    return ",".join(sorted({detail.graph.fingerprint for detail in details}))


def _title(details: Sequence[CandidateDetail]) -> str:
    first = details[0].candidate.task
    return f"{first.name}: {first.shapes}" + (
        f" and {len(details) - 1} more" if details[1:] else ""
    )
