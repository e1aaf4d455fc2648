"""A C++ function that launches the kernels through `mlx::core::fast::metal_kernel`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch
from kernelwright.metal.render import kernel_name
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.license_text import license_text
from kernelwright.runtime.export.reference_code import parameter_names
from kernelwright.runtime.export.selection import WARNING, Selection
from kernelwright.runtime.export.verification import verification_text

_LIMITS = (
    "Other shapes and dtypes: the function throws; `{name}_or` runs a fallback of yours instead.",
    "Machines without Metal: `serves` is false there.",
    "Gradients: a Metal kernel has none of its own.",
    "The kernel itself was not run from C++; it is the text that was judged.",
)
_MATH_MODES = {"safe": "Safe", "relaxed": "Relaxed", "fast": "Fast"}
_RAW_LIMIT = 16_000

_HEADER = """\
{notice}// {name}: {takes} -> {gives}.
// Found by Kernelwright; VERIFICATION.md says what was checked.

#pragma once

#include <utility>
#include <vector>

#include <mlx/mlx.h>

namespace {namespace} {{

/// Whether the kernels take these arrays, here: shapes, dtypes, and a GPU that runs Metal.
bool serves({parameters});

/// Compute {name} on the GPU; throws std::invalid_argument where `fits` is false.
{result} {name}({parameters});

/// Whether the arrays have the shapes and dtypes of the kernels.
bool fits({parameters});

/// Compute {name} by the kernels where they serve, else by a fallback of the same arrays.
template <typename Fallback>
{result} {name}_or({parameters}, Fallback&& fallback) {{
  return serves({arguments}) ? {name}({arguments}) : std::forward<Fallback>(fallback)({arguments});
}}

}}  // namespace {namespace}
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project({name} LANGUAGES CXX)

# MLX as pip installs it is found with -DMLX_ROOT="$(python -m mlx --cmake-dir)".
find_package(MLX CONFIG REQUIRED)

add_library({name} {name}.cpp)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_features({name} PUBLIC cxx_std_20)
target_link_libraries({name} PUBLIC mlx)

if(PROJECT_IS_TOP_LEVEL)
  enable_testing()
  add_executable(test_{name} test_{name}.cpp)
  target_link_libraries(test_{name} PRIVATE {name})
  add_test(NAME test_{name} COMMAND test_{name})
endif()
"""

_TEST = """\
{notice}// Tests of {name}: what fits, what does not, and the fallback; the kernels where Metal is.

#include <iostream>
#include <stdexcept>

#include "{name}.h"

namespace mx = mlx::core;

static int failures = 0;

static void check(bool holds, const char* what) {{
  if (!holds) {{
    std::cerr << "failed: " << what << std::endl;
    ++failures;
  }}
}}

int main() {{
{arrays}
  check({namespace}::fits({names}), "arrays as searched fit");
  check(!{namespace}::fits({wrong}), "another shape does not fit");
  bool refused = false;
  try {{
    {namespace}::{name}({wrong});
  }} catch (const std::invalid_argument&) {{
    refused = true;
  }}
  check(refused, "another shape is refused");
  bool fell_back = false;
  {namespace}::{name}_or({wrong}, [&](auto&&...) {{
    fell_back = true;
    return {empty};
  }});
  check(fell_back, "another shape runs the fallback");
  if ({namespace}::serves({names})) {{
    auto made = {namespace}::{name}({names});
{evaluated}
  }}
  return failures;
}}
"""


class CppFormat:
    """A header, a source file, CMakeLists.txt with a test, the licence and VERIFICATION.md."""

    takes_several = False

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Print the functions for the shapes that were verified."""
        (chosen,) = selections
        name, printed = chosen.name, _Printed.of(chosen)
        limits = tuple(limit.format(name=name) for limit in _LIMITS)
        return (
            ExportedFile(name=f"{name}.cpp", text=_source(chosen, printed)),
            ExportedFile(name=f"{name}.h", text=printed.header()),
            ExportedFile(name=f"test_{name}.cpp", text=printed.test()),
            ExportedFile(name="CMakeLists.txt", text=_CMAKE.format(name=name)),
            ExportedFile(name="LICENSE", text=license_text()),
            ExportedFile(name="VERIFICATION.md", text=verification_text(chosen, limits)),
        )

    def use(self, name: str) -> str:
        """Return the include."""
        return f'#include "{name}.h"'


@dataclass(frozen=True)
class _Printed:
    """What the files of an export share."""

    name: str
    namespace: str
    notice: str
    bound: BoundProgram
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, chosen: Selection) -> "_Printed":
        bound = chosen.detail.program.bind(chosen.detail.graph.input_types)
        notice = "" if chosen.is_verified else f"// {WARNING}\n"
        names = tuple(f"{n}_" if n in _TAKEN else n for n in parameter_names(chosen.detail.graph))
        return cls(chosen.name, f"{chosen.name}_kernels", notice, bound, names)

    @property
    def result(self) -> str:
        is_one = len(self.bound.outputs) == 1
        return "mlx::core::array" if is_one else "std::vector<mlx::core::array>"

    @property
    def parameters(self) -> str:
        return ", ".join(f"const mlx::core::array& {name}" for name in self.inputs)

    @property
    def takes(self) -> str:
        return ", ".join(map(str, self.bound.inputs))

    @property
    def gives(self) -> str:
        return ", ".join(map(str, self.bound.outputs))

    def header(self) -> str:
        return _HEADER.format(
            notice=self.notice,
            name=self.name,
            namespace=self.namespace,
            takes=self.takes,
            gives=self.gives,
            parameters=self.parameters,
            arguments=", ".join(self.inputs),
            result=self.result,
        )

    def test(self) -> str:
        arrays = "\n".join(
            f"  auto {name} = mx::zeros({_shape(type_)}, {_dtype(type_.dtype)});"
            for name, type_ in zip(self.inputs, self.bound.inputs, strict=True)
        )
        other = "mx::zeros(mx::Shape{3, 1, 2, 1, 5})"
        is_one = len(self.bound.outputs) == 1
        return _TEST.format(
            notice=self.notice,
            name=self.name,
            namespace=self.namespace,
            arrays=arrays,
            names=", ".join(self.inputs),
            wrong=", ".join([other, *self.inputs[1:]]),
            empty="mx::zeros({1})" if is_one else "std::vector<mx::array>{}",
            evaluated="    mx::eval(made);"
            + (f'\n    check(made.shape() == {_shape(self.bound.outputs[0])}, "its shape");')
            * is_one,
        )


_TAKEN = frozenset({"fits", "serves", "fallback", "auto", "const", "double", "float", "int", "new"})


def _source(chosen: Selection, printed: _Printed) -> str:
    bound = printed.bound
    lines = [
        f"{printed.notice}// {chosen.name}: {printed.takes} -> {printed.gives}.",
        "// Found by Kernelwright; VERIFICATION.md says what was checked.",
        "",
        f'#include "{chosen.name}.h"',
        "",
        "#include <limits>",
        "#include <optional>",
        "#include <stdexcept>",
        "",
        "namespace mx = mlx::core;",
        "",
        f"namespace {printed.namespace} {{",
        "",
        f"bool fits({printed.parameters}) {{",
        f"  return {_conditions(bound, printed.inputs)};",
        "}",
        "",
        f"bool serves({printed.parameters}) {{",
        "  return mx::metal::is_available() && mx::default_device() == mx::Device::gpu &&",
        f"      fits({', '.join(printed.inputs)});",
        "}",
        "",
        f"{printed.result} {chosen.name}({printed.parameters}) {{",
        f"  if (!fits({', '.join(printed.inputs)})) {{",
        f'    throw std::invalid_argument("{chosen.name} takes {printed.takes}.");',
        "  }",
    ]
    places = dict(zip((t.name for t in bound.program.inputs), printed.inputs, strict=True))
    for number, launch in enumerate(bound.launches, 1):
        lines += _launch(bound, launch, number, places)
        made = {name: f"made_{number}[{i}]" for i, name in enumerate(launch.kernel.outputs)}
        places |= made
    results = [places[t.name] for t in bound.program.outputs]
    returned = results[0] if len(results) == 1 else f"{{{', '.join(results)}}}"
    ending = [f"  return {returned};", "}", "", f"}}  // namespace {printed.namespace}", ""]
    return "\n".join([*lines, *ending])


def _conditions(bound: BoundProgram, names: Sequence[str]) -> str:
    conditions = [
        f"{name}.dtype() == {_dtype(type_.dtype)} && {name}.shape() == {_shape(type_)}"
        for name, type_ in zip(names, bound.inputs, strict=True)
    ]
    return " &&\n      ".join(conditions) or "true"


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
