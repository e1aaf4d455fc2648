"""Programs from outside: a JSON file, or a kernel's Metal body with its launch."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import InputError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.extent import FUNCTIONS, symbols_in
from kernelwright.metal.kernel import (
    Dimensions,
    Extent,
    Kernel,
    Program,
    TemplateValue,
    Tensor,
)
from kernelwright.plural import counted
from kernelwright.validation import sentence_of

_LARGEST_FILE = 4 << 20
_NAMED_SIZE = re.compile(r"[A-Za-z_]\w*(?:\s*\[\s*\d+\s*\])?")
_MOST_SIZES = 8
"""How many sizes a message lists."""
_METAL_NAMES = {
    Dtype.FLOAT32: ("float",),
    Dtype.FLOAT16: ("half",),
    Dtype.BFLOAT16: ("bfloat", "bfloat16_t"),
    Dtype.INT32: ("int",),
    Dtype.UINT32: ("uint",),
}


class LaunchText(Record):
    """How a Metal body is launched, as typed: `4096`, or `x_shape[1]*32,x_shape[0]`."""

    grid: str
    threadgroup: str = "256"
    inputs: tuple[str, ...] = ()
    """Names in the body, in the task's order; the task's own names when empty."""
    outputs: tuple[str, ...] = ()
    """Names in the body; `out`, or `out0`, `out1` … when empty."""
    template: str = ""
    """Template arguments as `mx.fast.metal_kernel` takes them: `T=f16, N=4, IS_CAUSAL=true`."""
    header: str = ""
    """The text before the body: functions and includes."""


def read_program(path: Path) -> Program:
    """Read a program's JSON.

    Raises:
        InputError: there is no such file, or it holds no program.
    """
    return program_of_json(read_text(path), str(path))


def program_of_json(text: str, place: str) -> Program:
    """Read a program's JSON, which stands at `place`.

    Raises:
        InputError: it holds no program.
    """
    try:
        return Program.model_validate_json(text)
    except ValidationError as e:
        raise InputError(f"{place} is no program: {sentence_of(e)}") from e
    except InputError as e:
        raise InputError(f"{place} is no program: {e}") from e


def read_body(path: Path, graph: Graph, launch: LaunchText) -> Program:
    """Read a kernel's Metal body and make a program of it, specialised to the graph's shapes.

    Raises:
        InputError: there is no such file, or launch and task do not fit together.
    """
    return program_of_body(read_text(path), path.stem, graph, launch, place=str(path))


def program_of_body(
    source: str, name: str, graph: Graph, launch: LaunchText, *, place: str = "the source"
) -> Program:
    """Make a program of a Metal body that stands at `place`, specialised to the graph's shapes.

    Raises:
        InputError: launch and task do not fit together.
    """
    if not source.strip():
        raise InputError("expected a kernel's Metal body, found an empty text.")
    names = launch.inputs or graph.input_names()
    outputs = launch.outputs or _output_names(len(graph.outputs))
    for what, found, types in (
        ("input", names, graph.input_types),
        ("output", outputs, graph.output_types),
    ):
        if len(found) != len(types):
            raise InputError(
                f"the task has {counted(len(types), what)}, found {counted(len(found), 'name')}; "
                "name each of them."
            )
    sizes = _sizes_of(names, graph.input_types) | _sizes_of(outputs, graph.output_types)
    try:
        kernel = Kernel(
            name=_identifier(name),
            inputs=names,
            outputs=outputs,
            source=source,
            header=launch.header,
            template=_template(launch.template),
            grid=_extents(launch.grid, sizes),
            threadgroup=_extents(launch.threadgroup, sizes),
        )
        return Program(
            inputs=_tensors(names, graph.input_types),
            outputs=_tensors(outputs, graph.output_types),
            kernels=(kernel,),
        )
    except ValidationError as e:
        raise InputError(f"{place} makes no program: {sentence_of(e)}") from e


def _template(text: str) -> dict[str, TemplateValue]:
    found: dict[str, TemplateValue] = {}
    for part in filter(None, map(str.strip, _split(text))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not value:
            raise InputError(f"expected template arguments such as T=f16,N=4; found {part!r}.")
        found[name] = _template_value(name, value)
    return found


def _template_value(name: str, text: str) -> TemplateValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.isdigit():
        return int(text)
    known = {each: d for d in Dtype for each in (d.value, d.short, *_METAL_NAMES.get(d, ()))}
    if text not in known and symbols_in(text):
        raise InputError(
            f"expected the template argument {name} as a dtype such as f16, a whole number, true "
            f"or false, found {text!r}."
        )
    return known.get(text, text)


def read_text(path: Path) -> str:
    """Read a text of a reasonable size.

    Raises:
        InputError: there is no such text.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError(f"{path} has more than {_LARGEST_FILE} bytes; a program is smaller.")
        return path.read_text()
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror}; give a program's JSON file.") from e
    except UnicodeDecodeError as e:
        raise InputError(f"{path} is no text; give a program's JSON or a Metal body.") from e


def _output_names(count: int) -> tuple[str, ...]:
    return ("out",) if count == 1 else tuple(f"out{i}" for i in range(count))


def _tensors(names: tuple[str, ...], types: tuple[TensorType, ...]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in zip(names, types, strict=True)
    )


def _identifier(stem: str) -> str:
    letters = "".join(c if c.isalnum() and c.isascii() else "_" for c in stem)
    return f"k_{letters}"[:64]


def _sizes_of(names: Sequence[str], types: Sequence[TensorType]) -> dict[str, int]:
    """Return what a launch may name of arrays, as MLX's own kernels name it."""
    found: dict[str, int] = {}
    for name, type_ in zip(names, types, strict=True):
        found |= {f"{name}_shape[{axis}]": size for axis, size in enumerate(type_.shape)}
        found |= {f"{name}_ndim": len(type_.shape), f"{name}_size": type_.size}
    return found


def _in_numbers(text: str, sizes: Mapping[str, int]) -> str:
    """Replace what a launch names of arrays by numbers.

    Raises:
        InputError: it names something else.
    """

    def number(found: re.Match[str]) -> str:
        name = re.sub(r"\s", "", found[0])
        if name in FUNCTIONS:
            return name
        if name not in sizes:
            known = ", ".join([*sizes][:_MOST_SIZES]) + (", …" if len(sizes) > _MOST_SIZES else "")
            raise InputError(
                f"expected a launch of numbers and of the arrays' sizes ({known}), found {name!r} "
                f"in {text!r}."
            )
        return str(sizes[name])

    return _NAMED_SIZE.sub(number, text)


def _extents(text: str, named: Mapping[str, int]) -> Dimensions:
    parts = [part.strip() for part in _split(_in_numbers(text, named))]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise InputError(f"expected one to three sizes such as 4096 or 32,64; found {text!r}.")
    sizes: list[Extent] = [int(p) if p.isdigit() else p for p in parts]
    sizes += [1] * (3 - len(sizes))
    return sizes[0], sizes[1], sizes[2]


def _split(text: str) -> list[str]:
    """Split at the commas that no parenthesis encloses."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def is_program_json(path: Path) -> bool:
    """Say whether a file's text is a JSON object, whatever its name."""
    try:
        return isinstance(json.loads(read_text(path)), dict)
    except ValueError:
        return False
