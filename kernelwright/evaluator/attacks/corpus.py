"""Reads the corpus: honest programs, and broken or cheating edits of them, declared as data."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import mlx.core as mx
from pydantic import Field, ValidationError

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.cast_text import cast_text
from kernelwright.evaluator.attacks.reference import FUNCTIONS
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

_TYPE = re.compile(r"^(\w+)\[([\d,]*)\]$")
Json = Mapping[str, object]


class Edit(Record):
    """A candidate made from an honest program; `class_` is its class in the list of attacks."""

    name: str
    class_: str = Field(alias="class")
    expect: tuple[Status, ...]
    """Any of these verdicts is right; the first is the usual one."""
    why: str
    """How it has fooled somebody, or would."""
    replace: tuple[tuple[str, str], ...] = ()
    """Text in a kernel's source, each of which must occur."""
    append: str = ""
    source: str = ""
    header: str = ""
    change: dict[str, object] = Field(default_factory=dict)
    """Fields of the first kernel."""
    rename: dict[str, str] = Field(default_factory=dict)
    """Arrays of the program."""
    drop_input: str = ""
    drop_output: str = ""
    output_shape: tuple[int | str, ...] | None = None
    output_dtype: Dtype | None = None
    temporary_shape: tuple[int | str, ...] | None = None
    dtypes: tuple[Dtype, ...] = tuple(Dtype)
    """Of the base's, those in which it is wrong."""


class Base(Record):
    """An honest program for a task, and its edits."""

    task: str
    inputs: tuple[str, ...]
    program: Program
    mutant: tuple[Edit, ...] = ()
    also: tuple[Dtype, ...] = ()
    """Further float dtypes in which the same text is right for the same task."""


@dataclass(frozen=True)
class Mutant:
    """A candidate that must get one of the expected verdicts."""

    base: str
    edit: Edit
    task: Task
    program: Program

    @property
    def name(self) -> str:
        """Name the mutant for people and test reports."""
        return f"{self.base}: {self.edit.name}"


@cache
def bases() -> Mapping[str, Base]:
    """Read every file of the corpus.

    Raises:
        InputError: a file is not what the corpus expects.
    """
    folder = files("kernelwright.evaluator.attacks") / "corpus"
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return {n.removesuffix(".toml"): _read(n, (folder / n).read_text()) for n in names}


def _read(name: str, text: str) -> Base:
    try:
        return Base.model_validate(tomllib.loads(text))
    except (ValidationError, tomllib.TOMLDecodeError) as e:
        raise InputError(f"{name} is no part of the corpus: {e}") from e


@cache
def cast_bases() -> Mapping[str, Base]:
    """Return each base that is right in further dtypes once in each of them."""
    return {
        f"{name} in {dtype}": _in_dtype(base, dtype)
        for name, base in bases().items()
        for dtype in base.also
    }


def _in_dtype(base: Base, dtype: Dtype) -> Base:
    """Return a base without its edits whose inputs and outputs of float32 have another dtype."""
    types = [_read_type(text) for text in base.inputs]
    inputs = (
        f"{dtype if d is Dtype.FLOAT32 else d}[{','.join(map(str, shape))}]" for d, shape in types
    )
    return Base(
        task=base.task,
        inputs=tuple(inputs),
        program=_cast(base.program, dtype),
    )


def _cast(program: Program, dtype: Dtype) -> Program:
    floats = [t for t in (*program.inputs, *program.outputs) if t.dtype is Dtype.FLOAT32]
    data = program.model_dump()
    for side in ("inputs", "outputs"):
        data[side] = [
            t.model_copy(update={"dtype": dtype}) if t in floats else t
            for t in getattr(program, side)
        ]
    for kernel in data["kernels"]:
        names = [t.name for t in floats if t.name in (*kernel["inputs"], *kernel["outputs"])]
        kernel["source"] = cast_text(kernel["source"], names, dtype) if names else kernel["source"]
    return Program.model_validate(data)


def honest() -> Iterator[tuple[str, Task, Program]]:
    """Yield the honest programs with their tasks."""
    for name, base in bases().items():
        yield name, task_of(name), base.program


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of the corpus in the dtype in which it was written."""
    for name, base in bases().items():
        for edit in base.mutant:
            yield Mutant(name, edit, task_of(name), apply(base.program, edit))


def cast_mutants() -> Iterator[Mutant]:
    """Yield the mutants of the corpus once more in each other dtype in which they are wrong."""
    for name, base in bases().items():
        for dtype in base.also:
            edits = (edit for edit in base.mutant if dtype in edit.dtypes)
            for edit in edits:
                program = _cast(apply(base.program, edit), dtype)
                yield Mutant(f"{name} in {dtype}", edit, task_of(f"{name} in {dtype}"), program)


@cache
def task_of(name: str) -> Task:
    """Capture a base's task."""
    base = bases().get(name) or cast_bases()[name]
    arrays = [_example(text) for text in base.inputs]
    with mx.stream(mx.cpu):
        return Task(canonicalize(capture(FUNCTIONS[base.task], *arrays)), base.task)


def _read_type(text: str) -> tuple[Dtype, tuple[int, ...]]:
    match = _TYPE.match(text)
    if match is None:
        raise InputError(f"expected a type such as f32[4,8], found {text!r}.")
    return Dtype.parse(match[1]), tuple(int(n) for n in match[2].split(",") if n)


def _example(text: str) -> mx.array:
    dtype, shape = _read_type(text)
    return mx.zeros(shape, getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value))


def apply(program: Program, edit: Edit) -> Program:
    """Return the program with an edit.

    Raises:
        InputError: a text to replace does not occur, so that the edit would change nothing.
    """
    data = program.model_dump(mode="json")
    _edit_arrays(data, edit)
    for old, new in edit.replace:
        if not any(old in kernel["source"] for kernel in data["kernels"]):
            raise InputError(f"{edit.name}: {old!r} is not in the source; correct the edit.")
        for kernel in data["kernels"]:
            kernel["source"] = kernel["source"].replace(old, new)
    first = data["kernels"][0]
    first["source"] = (edit.source or first["source"]) + edit.append
    first["header"] += edit.header
    first.update(edit.change)
    return Program.model_validate(data)


def _edit_arrays(data: dict[str, list[dict[str, object]]], edit: Edit) -> None:
    for name, other in edit.rename.items():
        for tensor in (*data["inputs"], *data["outputs"], *data["temporaries"]):
            tensor["name"] = other if tensor["name"] == name else tensor["name"]
        for kernel in data["kernels"]:
            for side in ("inputs", "outputs"):
                kernel[side] = [other if n == name else n for n in _names(kernel[side])]
    for dropped, side in ((edit.drop_input, "inputs"), (edit.drop_output, "outputs")):
        data[side] = [t for t in data[side] if t["name"] != dropped]
        for kernel in data["kernels"]:
            kernel[side] = [n for n in _names(kernel[side]) if n != dropped]
    if edit.output_shape is not None:
        data["outputs"][0]["shape"] = edit.output_shape
    if edit.output_dtype is not None:
        data["outputs"][0]["dtype"] = edit.output_dtype
    if edit.temporary_shape is not None:
        data["temporaries"][0]["shape"] = edit.temporary_shape


def _names(value: object) -> list[str]:
    assert isinstance(value, list)
    return value
