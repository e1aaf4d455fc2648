"""A Swift function that launches the kernels through mlx-swift's `MLXFast.metalKernel`."""

import math
import textwrap
from collections.abc import Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.render import kernel_name
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "The Swift text itself: it was printed for mlx-swift and not compiled.",
    "Other shapes and dtypes: the function stops with a precondition.",
    "Gradients: a Metal kernel has none of its own.",
)


class SwiftFormat:
    """A .swift file with one function, and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the function for the shapes that were verified."""
        (chosen,) = selections
        return (
            ExportedFile(name=f"{chosen.name}.swift", text=_source(chosen)),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, _LIMITS)),
        )

    def use(self, name: str) -> str:
        """Return a call."""
        return f"let results = {name}([MLXArray])"


def _source(chosen: Selection) -> str:
    bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
    takes = ", ".join(map(str, bound.inputs))
    gives = ", ".join(map(str, bound.outputs))
    notice = "" if chosen.is_verified else f"// {WARNING}\n"
    lines = [
        f"{notice}// Found by Kernelwright; VERIFICATION.md says what was checked.",
        "",
        "import MLX",
        "",
        *(_kernel(launch.kernel, n) for n, launch in enumerate(bound.launches, 1)),
        f"/// {chosen.name}: {takes} -> {gives}.",
        f"public func {chosen.name}(_ arrays: [MLXArray]) -> [MLXArray] {{",
        f"    precondition(arrays.count == {len(bound.inputs)})",
    ]
    for place, type_ in enumerate(bound.inputs):
        lines.append(f"    precondition(arrays[{place}].dtype == {_dtype(type_.dtype)})")
        lines.append(f"    precondition(arrays[{place}].shape == {list(type_.shape)})")
    places = {t.name: f"arrays[{i}]" for i, t in enumerate(bound.program.inputs)}
    for number, launch in enumerate(bound.launches, 1):
        lines += _launch(bound, launch, number, places)
        places |= {name: f"made{number}[{i}]" for i, name in enumerate(launch.kernel.outputs)}
    results = ", ".join(places[t.name] for t in bound.program.outputs)
    return "\n".join([*lines, f"    return [{results}]", "}", ""])


def _kernel(kernel: Kernel, number: int) -> str:
    if kernel.math_mode != "safe":
        raise UnsupportedError(
            f"mlx-swift takes no math mode, found {kernel.math_mode!r}; use --format cpp or mlxfn."
        )
    return "\n".join(
        [
            f"private let kernel{number} = MLXFast.metalKernel(",
            f'    name: "{kernel_name(kernel)}",',
            f"    inputNames: {_names(kernel.inputs)},",
            f"    outputNames: {_names(kernel.outputs)},",
            f"    source: {_text(kernel.source)},",
            f"    header: {_text(kernel.header)},",
            f"    ensureRowContiguous: {str(kernel.ensure_row_contiguous).lower()},",
            f"    atomicOutputs: {str(kernel.atomic_outputs).lower()})",
            "",
        ]
    )


def _launch(bound: BoundProgram, launch: Launch, number: int, places: dict[str, str]) -> list[str]:
    kernel = launch.kernel
    outputs = [bound.type_of(name) for name in kernel.outputs]
    lines = [
        f"    let made{number} = kernel{number}(",
        f"        [{', '.join(places[name] for name in kernel.inputs)}],",
    ]
    if launch.template:
        values = ", ".join(f'("{n}", {_template(v)})' for n, v in launch.template)
        lines.append(f"        template: [{values}],")
    lines += [
        f"        grid: {launch.grid},",
        f"        threadGroup: {launch.threadgroup},",
        f"        outputShapes: {[list(t.shape) for t in outputs]},",
        f"        outputDTypes: [{', '.join(_dtype(t.dtype) for t in outputs)}],",
    ]
    if kernel.init_value is not None:
        lines.append(f"        initValue: {_float(kernel.init_value)},")
    return [*lines, "        stream: .gpu)"]


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return "-Float.infinity" if value < 0 else ".infinity"
    return repr(value)


def _names(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _text(source: str) -> str:
    if not source:
        return '""'
    # The empty line ends the text with a line end: MLX joins header and function without one.
    # Swift takes the closing quotes' indentation off every line; # keeps backslashes as they are.
    body = textwrap.indent(source.strip("\n"), "        ")
    return f'#"""\n{body}\n\n        """#'


def _dtype(dtype: Dtype) -> str:
    return f".{dtype.value}"


def _template(value: Dtype | bool | int) -> str:
    if isinstance(value, Dtype):
        return f"DType{_dtype(value)}"
    return str(value).lower()
