"""The formats by name, and the one door to them."""

from collections.abc import Mapping, Sequence
from typing import Literal

from kernelwright.errors import InputError
from kernelwright.runtime.export.cpp import CppFormat
from kernelwright.runtime.export.format import ExportedModule, Format
from kernelwright.runtime.export.metal_text import MetalFormat
from kernelwright.runtime.export.mlxfn import MlxfnFormat
from kernelwright.runtime.export.module import ModuleFormat
from kernelwright.runtime.export.package import PackageFormat
from kernelwright.runtime.export.selection import select
from kernelwright.runtime.export.swift import SwiftFormat
from kernelwright.store import CandidateDetail

FormatName = Literal["module", "package", "metal", "mlxfn", "swift", "cpp"]
FORMATS: Mapping[FormatName, Format] = {
    "module": ModuleFormat(),
    "package": PackageFormat(),
    "metal": MetalFormat(),
    "mlxfn": MlxfnFormat(),
    "swift": SwiftFormat(),
    "cpp": CppFormat(),
}


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
    format_ = FORMATS[format_name]
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
    )
