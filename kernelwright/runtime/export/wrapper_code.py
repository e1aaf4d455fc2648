"""Prints the module: the kernels' source, the wrapper that dispatches, the fallback."""

import textwrap
from collections.abc import Sequence

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.nest import missing
from kernelwright.metal.kernel import Extent, Kernel, Program, Tensor
from kernelwright.runtime.export.dimension_code import (
    dimension_lines,
    extent_source,
    shape_conditions,
)
from kernelwright.runtime.export.literal_code import dtype_source
from kernelwright.runtime.export.reference_code import (
    as_returned,
    function_source,
    parameter_names,
    returning_lines,
)
from kernelwright.runtime.export.step_code import steps_source
from kernelwright.store import CandidateDetail

_PRELUDE = """\
import mlx.core as mx
"""
_ARITHMETIC = {
    "ceildiv": "\n\ndef _ceildiv(a, b):\n    return -(-a // b)\n",
    "align": "\n\ndef _align(a, b):\n    return -(-a // b) * b\n",
}


def module_source(detail: CandidateDetail, name: str, *, is_verified: bool) -> str:
    """Return the module's text."""
    program = detail.program
    parts = [
        _docstring(detail, name, is_verified=is_verified),
        _PRELUDE,
        kernel_source(program, detail.candidate.program_id),
        arithmetic_source([program]),
    ]
    parts += ["\n\n" + _wrapper(detail, name), "\n\n" + _serves(detail)]
    summary = "Compute the same with MLX's own ops, for any shape and dtype that they take."
    reference = function_source(detail.graph, "reference", summary)
    parts += ["\n\n" + reference, steps_source(reference)]
    return "".join(parts)


def kernel_source(program: Program, program_id: str, place: str = "") -> str:
    """Return the definitions of a program's kernels, as constants of the module."""
    return "\n".join(_kernel(kernel, program, program_id, place) for kernel in program.kernels)


def arithmetic_source(programs: Sequence[Program]) -> str:
    """Return the functions that the programs' launch arithmetic calls."""
    arrays = (tensor for program in programs for tensor in program.inputs)
    given = [extent for tensor in arrays for extent in tensor.shape]
    launched = [extent for program in programs for extent in _extents(program)]
    used = " ".join(map(str, (*given, *launched)))
    return "".join(text for name, text in _ARITHMETIC.items() if f"{name}(" in used)


def launch_source(program: Program, name: str, summary: str, place: str) -> str:
    """Return a function of the program's inputs that launches its kernels, whatever they are."""
    parameters = tuple(f"a_{t.name}" for t in program.inputs)
    lines = [f"def {name}({', '.join(parameters)}):", f'    """{summary}"""']
    results = ", ".join(_results(program))
    return (
        "\n".join([*lines, *_launches(program, parameters, place), f"    return {results}"]) + "\n"
    )


def _docstring(detail: CandidateDetail, name: str, *, is_verified: bool) -> str:
    signature = f"{name}({', '.join(parameter_names(detail.graph))})"
    takes = ", ".join(map(str, detail.graph.input_types))
    gives = ", ".join(map(str, as_returned(detail.graph).output_types))
    absent = missing(detail.graph.results)
    part = f"\n\nIt does not return {absent}." if absent else ""
    warning = "" if is_verified else "\n\nNOT VERIFIED: no evaluation found this kernel correct."
    text = (
        f"{signature} as one Metal kernel."
        if len(detail.program.kernels) == 1
        else f"{signature} as {len(detail.program.kernels)} Metal kernels."
    )
    body = textwrap.fill(f"{takes} -> {gives}", 96)
    return (
        f'"""{text}\n\n{body}{part}\n\n'
        "Found by Kernelwright; VERIFICATION.md says what was checked. Everything that the kernel\n"
        f'does not serve goes to `reference`, which is plain MLX.{warning}\n"""\n\n'
    )


def _kernel(kernel: Kernel, program: Program, program_id: str, place: str) -> str:
    name = _constant_name(kernel, program, place)
    options = [
        # MLX caches by name: one that holds the content cannot meet another kernel's code.
        f'    name="{kernel.name}_{program_id[:12]}",',
        f"    input_names=[{_quoted(kernel.inputs)}],",
        f"    output_names=[{_quoted(kernel.outputs)}],",
        f"    source={_text(kernel.source)},",
    ]
    if kernel.header:
        options.append(f"    header={_text(kernel.header)},")
    if not kernel.ensure_row_contiguous:
        options.append("    ensure_row_contiguous=False,")
    if kernel.atomic_outputs:
        options.append("    atomic_outputs=True,")
    if kernel.math_mode != "safe":
        options.append(f'    compile_options={{"math_mode": "{kernel.math_mode}"}},')
    return "\n".join([f"\n{name} = mx.fast.metal_kernel(", *options, ")\n"])


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _text(source: str) -> str:
    # A raw string keeps the source as a person would read it, wherever Python allows one.
    body = source.strip("\n")
    if '"""' in body or body.endswith(("\\", '"')):
        return repr(source)
    return f'r"""\n{body}\n"""'


def _constant_name(kernel: Kernel, program: Program, place: str) -> str:
    if len(program.kernels) == 1:
        return f"_KERNEL{place}"
    return f"_{kernel.name.upper()}{place}"


def _wrapper(detail: CandidateDetail, name: str) -> str:
    parameters = parameter_names(detail.graph)
    listed = ", ".join(parameters)
    lines = [
        f"def {name}({listed}):",
        f'    """Compute {_summary(detail)}."""',
        f"    if not _serves({listed}):",
        f"        return reference({listed})",
    ]
    launches = _launches(detail.program, parameters, "")
    returning = returning_lines(detail.graph, _results(detail.program))
    return "\n".join([*lines, *launches, *(f"    {line}" for line in returning)]) + "\n"


def _results(program: Program) -> list[str]:
    return [f"a_{t.name}" for t in program.outputs]


def _launches(program: Program, parameters: tuple[str, ...], place: str) -> list[str]:
    """Print the launches of a program's kernels."""
    variables = {
        t.name: f"a_{t.name}" for t in (*program.inputs, *program.outputs, *program.temporaries)
    }
    variables |= {
        tensor.name: parameter for tensor, parameter in zip(program.inputs, parameters, strict=True)
    }
    bound = dimension_lines(program, parameters, _extents(program))
    lines = [f"    {line}" for line in bound]
    tensors = {t.name: t for t in (*program.outputs, *program.temporaries)}
    for kernel in program.kernels:
        lines += _launch(kernel, variables, tensors, _constant_name(kernel, program, place))
    return lines


def _summary(detail: CandidateDetail) -> str:
    signature = detail.candidate.task.signature
    return f"{detail.candidate.task.name}: {signature}" if signature else detail.candidate.task.name


def _extents(program: Program) -> list[Extent]:
    shapes = [e for t in (*program.outputs, *program.temporaries) for e in t.shape]
    launches = [e for k in program.kernels for e in (*k.grid, *k.threadgroup)]
    constants = [
        v
        for k in program.kernels
        for v in k.template.values()
        if isinstance(v, int | str) and not isinstance(v, bool | Dtype)
    ]
    return [*shapes, *launches, *constants]


def _launch(
    kernel: Kernel, variables: dict[str, str], tensors: dict[str, Tensor], constant: str
) -> list[str]:
    outputs = [tensors[name] for name in kernel.outputs]
    results = ", ".join(variables[t.name] for t in outputs)
    comma = "," if len(outputs) == 1 else ""
    lines = [
        f"    {results}{comma} = {constant}(",
        f"        inputs=[{', '.join(variables[name] for name in kernel.inputs)}],",
    ]
    if kernel.template:
        values = ", ".join(f'("{n}", {_template(v)})' for n, v in kernel.template.items())
        lines.append(f"        template=[{values}],")
    lines += [
        f"        grid={_tuple(kernel.grid)},",
        f"        threadgroup={_tuple(kernel.threadgroup)},",
        f"        output_shapes=[{', '.join(_tuple(t.shape) for t in outputs)}],",
        f"        output_dtypes=[{', '.join(dtype_source(t.dtype) for t in outputs)}],",
    ]
    if kernel.init_value is not None:
        lines.append(f"        init_value={kernel.init_value!r},")
    return [*lines, "    )"]


def _template(value: Dtype | bool | int | str) -> str:
    if isinstance(value, Dtype):
        return dtype_source(value)
    return repr(value) if isinstance(value, bool) else extent_source(value)


def _tuple(extents: tuple[Extent, ...]) -> str:
    inner = ", ".join(map(extent_source, extents))
    return f"({inner},)" if len(extents) == 1 else f"({inner})"


def _serves(detail: CandidateDetail) -> str:
    """Print the check: the verified shapes and dtypes, on a GPU that runs Metal."""
    program = detail.program
    parameters = parameter_names(detail.graph)
    conditions = []
    shapes = shape_conditions(program, parameters)
    for tensor, parameter, held in zip(program.inputs, parameters, shapes.single, strict=True):
        conditions.append(f"{parameter}.dtype == {dtype_source(tensor.dtype)}")
        if any(isinstance(extent, str) for extent in tensor.shape):
            conditions += [f"{parameter}.ndim == {len(tensor.shape)}", *held]
        else:
            conditions.append(f"{parameter}.shape == {_tuple(tensor.shape)}")
    conditions += shapes.joint
    joined = "".join(f"        and {condition}\n" for condition in conditions)
    return (
        f"def _serves({', '.join(parameters)}):\n"
        '    """Say whether the kernel runs here and was verified for these arrays."""\n'
        "    return (\n"
        "        mx.metal.is_available()\n"
        "        and mx.default_device() == mx.gpu\n"
        f"{joined}"
        "    )\n"
    )
