"""What a kernel is, how one is lowered from a region, and where it runs."""

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
