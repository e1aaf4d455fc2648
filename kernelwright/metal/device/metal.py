"""The `metal` device: an Apple GPU, through `mx.fast.metal_kernel`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import mlx.core as mx

from kernelwright.errors import DeviceError
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.execution import MlxExecutable, launch_error
from kernelwright.metal.diagnostic import CompileError, Diagnostic, Severity
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.render import mlx_kernel, template_arguments

_COMPILE_FAILURE = "Unable to build metal library from source"
_MESSAGE = re.compile(r"^\S+:\d+:(?P<column>\d+): (?P<severity>error|warning): (?P<message>.+)$")


class MetalDevice:
    """An Apple GPU. MLX compiles a kernel when it first runs, so `compile` cannot fail here."""

    def __init__(self) -> None:
        if not mx.metal.is_available():
            raise DeviceError(
                "this machine has no Apple GPU; Kernelwright's simulator runs Metal without one."
            )

    @cached_property
    def info(self) -> DeviceInfo:
        """Return the chip and MLX's version; both decide whether a verdict still holds."""
        found = mx.device_info(mx.Device(mx.gpu, 0))
        return DeviceInfo(
            name="metal",
            chip=str(found["device_name"]),
            runtime=f"mlx {version('mlx')}, {found['architecture']}",
            measures_time=True,
        )

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> MlxExecutable:
        """Prepare every kernel for MLX."""
        if sanitize:
            raise DeviceError("the metal device has no sanitizer; run the simulator's first.")
        return MlxExecutable(program, tuple(MetalLaunch(launch) for launch in program.launches))


@dataclass(frozen=True)
class MetalLaunch:
    """One launch; MLX holds its compiled library."""

    launch: Launch

    @property
    def kernel(self) -> Kernel:
        """What is launched."""
        return self.launch.kernel

    @cached_property
    def _function(self) -> Callable[..., list[mx.array]]:
        return mlx_kernel(self.kernel)

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Add the launch to MLX's graph."""
        return self._function(
            inputs=list(arrays),
            template=template_arguments(self.launch),
            grid=self.launch.grid,
            threadgroup=self.launch.threadgroup,
            output_shapes=[t.shape for t in types],
            output_dtypes=[mlx_dtype(t.dtype) for t in types],
            init_value=init_value,
            stream=mx.gpu,
        )

    def load(self, arrays: Sequence[mx.array], types: Sequence[TensorType]) -> list[mx.array]:
        """Run once on arrays: MLX compiles the library."""
        made = self.call(arrays, types, self.kernel.init_value)
        mx.eval(made)
        return made

    def error(self, error: Exception) -> Exception:
        """Read MLX's exception: a compiler's messages, or a launch that cannot be."""
        if _COMPILE_FAILURE in str(error):
            return CompileError(compiler_diagnostics(str(error), self.kernel))
        return launch_error(self.kernel, error)


def compiler_diagnostics(text: str, kernel: Kernel) -> tuple[Diagnostic, ...]:
    """Read the messages in MLX's exception and find each one's line in the kernel's own text.

    MLX compiles its prelude before the kernel, so the compiler's line numbers are not the
    kernel's; the source line that follows each message is.
    """
    found = tuple(_diagnostics(text.splitlines(), kernel))
    return found or (Diagnostic(message=text.strip()[:2000]),)


def _diagnostics(lines: Sequence[str], kernel: Kernel) -> Iterator[Diagnostic]:
    for place, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None:
            continue
        quoted = lines[place + 1] if place + 1 < len(lines) else ""
        file, number = _find(quoted, kernel)
        yield Diagnostic(
            message=match["message"],
            file=file,
            line=number,
            column=int(match["column"]) if number else 0,
            severity=Severity(match["severity"]),
            source_line=quoted if number else "",
        )


def _find(quoted: str, kernel: Kernel) -> tuple[str, int]:
    """Return a line's first place, in the source before the header; line 0 when in neither."""
    for file, text in (("source", kernel.source), ("header", kernel.header)):
        for number, line in enumerate(text.splitlines(), start=1):
            if quoted.strip() and line.strip() == quoted.strip():
                return file, number
    return "source", 0
