"""What a kernel is, how one is lowered from a region, and where it runs."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.metal import simulator
    from kernelwright.metal.diagnostic import (
        CompileError,
        Diagnostic,
        LaunchError,
        ReportKind,
        SanitizerReport,
        Severity,
    )
    from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor, Tunable
else:
    offer_lazily(__name__)


__all__ = [
    "BoundProgram",
    "CompileError",
    "Diagnostic",
    "Kernel",
    "LaunchError",
    "Program",
    "ReportKind",
    "SanitizerReport",
    "Severity",
    "Tensor",
    "Tunable",
    "simulator",
]
