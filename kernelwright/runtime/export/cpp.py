"""A C++ function that launches the kernels through `mlx::core::fast::metal_kernel`."""

import math
from collections.abc import Sequence

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.render import kernel_name
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "Other shapes and dtypes: the function throws `std::invalid_argument`.",
    "Machines without Metal: MLX throws; there is no fallback.",
    "Gradients: a Metal kernel has none of its own.",
)
_MATH_MODES = {"safe": "Safe", "relaxed": "Relaxed", "fast": "Fast"}
_RAW_LIMIT = 16_000


class CppFormat:
    """A .cpp file with one function, and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the function for the shapes that were verified."""
        (chosen,) = selections
        return (
            ExportedFile(name=f"{chosen.name}.cpp", text=_source(chosen)),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, _LIMITS)),
        )

    def use(self, name: str) -> str:
        """Return the declaration."""
        return f"std::vector<mlx::core::array> {name}(const std::vector<mlx::core::array>&)"


def _source(chosen: Selection) -> str:
    bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
    takes = ", ".join(map(str, bound.inputs))
    gives = ", ".join(map(str, bound.outputs))
    notice = "" if chosen.is_verified else f"// {WARNING}\n"
    lines = [
        f"{notice}// {chosen.name}: {takes} -> {gives}.",
        "// Found by Kernelwright; VERIFICATION.md says what was checked.",
        "",
        "#include <limits>",
        "#include <optional>",
        "#include <stdexcept>",
        "#include <vector>",
        "",
        "#include <mlx/mlx.h>",
        "",
        "namespace mx = mlx::core;",
        "",
        f"std::vector<mx::array> {chosen.name}(const std::vector<mx::array>& arrays) {{",
        *_checks(bound, chosen.name),
    ]
    places = {t.name: f"arrays[{i}]" for i, t in enumerate(bound.program.inputs)}
    for number, launch in enumerate(bound.launches, 1):
        lines += _launch(bound, launch, number, places)
        made = {name: f"made_{number}[{i}]" for i, name in enumerate(launch.kernel.outputs)}
        places |= made
    results = ", ".join(places[t.name] for t in bound.program.outputs)
    return "\n".join([*lines, f"  return {{{results}}};", "}", ""])


def _checks(bound: BoundProgram, name: str) -> list[str]:
    conditions = [f"arrays.size() != {len(bound.inputs)}"]
    for place, type_ in enumerate(bound.inputs):
        conditions.append(f"arrays[{place}].dtype() != {_dtype(type_.dtype)}")
        conditions.append(f"arrays[{place}].shape() != {_shape(type_)}")
    joined = " ||\n      ".join(conditions)
    takes = ", ".join(map(str, bound.inputs))
    return [
        f"  if ({joined}) {{",
        f'    throw std::invalid_argument("{name} takes {takes}.");',
        "  }",
    ]


def _launch(bound: BoundProgram, launch: Launch, number: int, places: dict[str, str]) -> list[str]:
    kernel = launch.kernel
    outputs = [bound.type_of(name) for name in kernel.outputs]
    template = ", ".join(f'{{"{n}", {_template(v)}}}' for n, v in launch.template)
    return [
        *_kernel(kernel, number),
        f"  auto made_{number} = kernel_{number}(",
        f"      {{{', '.join(places[name] for name in kernel.inputs)}}},",
        f"      {{{', '.join(map(_shape, outputs))}}},",
        f"      {{{', '.join(_dtype(t.dtype) for t in outputs)}}},",
        f"      {{{', '.join(map(str, launch.grid))}}},",
        f"      {{{', '.join(map(str, launch.threadgroup))}}},",
        f"      {{{template}}},",
        f"      {_initial(kernel.init_value)},",
        "      /* verbose = */ false,",
        "      mx::Device::gpu);",
    ]


def _kernel(kernel: Kernel, number: int) -> list[str]:
    mode = f"mx::MathMode::{_MATH_MODES[kernel.math_mode]}"
    # MLX joins the header and the function without a line end between them.
    header = f"{kernel.header.rstrip()}\n" if kernel.header else ""
    return [
        f"  static const auto kernel_{number} = mx::fast::metal_kernel(",
        f'      "{kernel_name(kernel)}",',
        f"      {_names(kernel.inputs)},",
        f"      {_names(kernel.outputs)},",
        f"      {_text(kernel.source)},",
        f"      {_text(header)},",
        f"      /* ensure_row_contiguous = */ {str(kernel.ensure_row_contiguous).lower()},",
        f"      /* atomic_outputs = */ {str(kernel.atomic_outputs).lower()},",
        f"      mx::CompileOptions(static_cast<int>({mode})));",
    ]


def _initial(value: float | None) -> str:
    if value is None:
        return "std::nullopt"
    if math.isnan(value):
        return "std::numeric_limits<float>::quiet_NaN()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<float>::infinity()"
    return f"{value!r}f"


def _names(names: Sequence[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _text(source: str) -> str:
    if not source:
        return '""'
    # MSVC ends a literal at 16 KB; adjacent ones are joined by the compiler.
    pieces = [source[i : i + _RAW_LIMIT] for i in range(0, len(source), _RAW_LIMIT)]
    return "\n".join(f'R"msl({piece})msl"' for piece in pieces)


def _shape(type_: TensorType) -> str:
    return f"mx::Shape{{{', '.join(map(str, type_.shape))}}}"


def _dtype(dtype: Dtype) -> str:
    return "mx::bool_" if dtype is Dtype.BOOL else f"mx::{dtype.value}"


def _template(value: Dtype | bool | int) -> str:
    if isinstance(value, Dtype):
        return _dtype(value)
    return str(value).lower()
