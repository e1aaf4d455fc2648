"""The exact Metal text that MLX compiles for a launch, asked of MLX itself on any machine."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import mlx.core as mx

from kernelwright.errors import DeviceError, InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.entry import is_kernel
from kernelwright.metal.msl.signature import Parameter, read_parameters
from kernelwright.metal.msl.token import tokenize, without_comments

Role = Literal["data", "shape", "strides", "ndim"]
_ROLES: dict[str, Role] = {"shape": "shape", "strides": "strides", "ndim": "ndim"}
_OPENING = ") {\n"


@dataclass(frozen=True, slots=True)
class RenderedBuffer:
    """One buffer of the generated signature."""

    array: str
    """The program's array that it holds or describes."""
    role: Role
    parameter: Parameter


@dataclass(frozen=True, slots=True)
class Rendered:
    """What MLX generates for a launch; the text is `header + signature + source`."""

    name: str
    """The function's name, which is also its host name."""
    header: str
    signature: str
    source: str
    """The body, with what closes and instantiates the function after it."""
    buffers: tuple[RenderedBuffer, ...]
    """In the order of their indices."""

    @property
    def text(self) -> str:
        """The whole text, as MLX sends it after its own prelude."""
        return self.header + self.signature + self.source


def render(launch: Launch, program: BoundProgram) -> Rendered:
    """Return the text that MLX compiles for one launch of a program.

    Comments are blanked out first, each character staying where it is: MLX derives the
    signature from substrings of the source, comments included.

    Raises:
        InputError: MLX refuses the kernel, or would generate a text that cannot compile.
        DeviceError: this MLX does not say what it generates.
    """
    kernel = launch.kernel
    header, source = _normalised(kernel)
    inputs = [program.type_of(name) for name in kernel.inputs]
    outputs = [program.type_of(name) for name in kernel.outputs]
    name, text = _generated(launch, header, source, inputs, outputs)
    start = text.find(_OPENING, len(header)) + len(_OPENING)
    if not text.startswith(header) or not text.startswith(source, start):
        raise DeviceError(f"mlx {version('mlx')} generates kernels in an unknown form.")
    signature = text[len(header) : start]
    return Rendered(
        name=name,
        header=header,
        signature=signature,
        source=text[start:],
        buffers=_buffers(f"{signature}}}", kernel),
    )


def kernel_name(kernel: Kernel) -> str:
    """Return the name to give MLX: two kernels of one name and different text never meet.

    MLX before 0.32.1 ran the first one's code for both.
    """
    options = (kernel.source, kernel.header, kernel.math_mode, kernel.atomic_outputs)
    digest = hashlib.sha256(repr(options).encode()).hexdigest()[:12]
    return f"{kernel.name}_{digest}"


def mlx_kernel(kernel: Kernel) -> Callable[..., list[mx.array]]:
    """Build the callable of `mx.fast.metal_kernel`, from the same text that `render` shows."""
    header, source = _normalised(kernel)
    return mx.fast.metal_kernel(  # type: ignore[return-value]
        name=kernel_name(kernel),
        input_names=list(kernel.inputs),
        output_names=list(kernel.outputs),
        source=source,
        header=header,
        ensure_row_contiguous=kernel.ensure_row_contiguous,
        atomic_outputs=kernel.atomic_outputs,
        compile_options={"math_mode": kernel.math_mode},
    )


def template_arguments(launch: Launch) -> list[tuple[str, mx.Dtype | bool | int]]:
    """Return a launch's template arguments as MLX takes them."""
    return [(n, mlx_dtype(v) if isinstance(v, Dtype) else v) for n, v in launch.template]


def _normalised(kernel: Kernel) -> tuple[str, str]:
    header, source = without_comments(kernel.header), without_comments(kernel.source)
    # MLX joins the header and the function without a line end between them.
    return (f"{header}\n" if header and not header.endswith("\n") else header), source


def _generated(
    launch: Launch,
    header: str,
    source: str,
    inputs: list[TensorType],
    outputs: list[TensorType],
) -> tuple[str, str]:
    """Trace a call and return the function's name and text."""
    kernel = launch.kernel
    found: list[tuple[str, str]] = []

    def note(event: dict[str, object]) -> None:
        if event.get("type") == "primitive" and event.get("name") == "CustomKernel":
            arguments = event["arguments"]
            assert isinstance(arguments, list | tuple)
            found.append((str(arguments[0]), str(arguments[1])))

    def call(*arrays: mx.array) -> list[mx.array]:
        return mlx_kernel(kernel)(
            inputs=list(arrays),
            template=template_arguments(launch),
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=[t.shape for t in outputs],
            output_dtypes=[mlx_dtype(t.dtype) for t in outputs],
            stream=mx.gpu,
        )

    try:
        arrays = [mx.zeros(t.shape, mlx_dtype(t.dtype), stream=mx.cpu) for t in inputs]
        mx.export_function(note, call, *arrays)
    except (ValueError, RuntimeError, TypeError) as e:
        raise InputError(f"MLX refuses the kernel {kernel.name!r}: {e}") from e
    if len(found) != 1:
        raise DeviceError(f"mlx {version('mlx')} does not trace metal_kernel; install mlx 0.32.4.")
    return found[0]


def _buffers(text: str, kernel: Kernel) -> tuple[RenderedBuffer, ...]:
    structure = analyze(tokenize(text))
    function = next((f for f in structure.functions if is_kernel(structure, f)), None)
    if function is None:
        raise InputError(
            f"MLX generates no kernel for {kernel.name!r}; mention an attribute such as "
            "thread_position_in_grid in its source."
        )
    arrays = {*kernel.inputs, *kernel.outputs}
    return tuple(
        _buffer(p, arrays)
        for p in sorted(read_parameters(structure, function, {}), key=lambda p: p.index)
        if p.kind == "buffer"
    )


def _buffer(parameter: Parameter, arrays: set[str]) -> RenderedBuffer:
    if parameter.name in arrays:
        return RenderedBuffer(parameter.name, "data", parameter)
    array, _, role = parameter.name.rpartition("_")
    return RenderedBuffer(array, _ROLES[role], parameter)
