"""Proof that a mutant is no other program: both texts compile to the same machine code."""

import hashlib
from collections.abc import Iterator
from math import prod

from kernelwright.errors import InputError
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.simulator.compiler import compile_unit
from kernelwright.metal.device.simulator.unit import Section, prepare
from kernelwright.metal.kernel import BoundProgram, Dimensions, Kernel, Launch, Program
from kernelwright.metal.msl.token import tokenize
from kernelwright.metal.render import render

_NAME = "kernel_under_test"
"""Stands for MLX's name of a kernel, which holds a hash of its text."""
_SIMDGROUP = 32
_AXES = "xyz"


def machine_code(
    task: Task, program: Program, beside: Program | None = None
) -> tuple[str, ...] | None:
    """Return a digest of each kernel's code at the task's shape; None where that proves nothing.

    The compiler is told what each launch fixes, such as how many threads there are: a guard that
    none of them can meet leaves no code. Two programs' digests are comparable when each was made
    `beside` the other, which has it told of the same attributes.

    A program of symbolic shape whose template arguments follow its sizes is another text at every
    size, so that one of them proves nothing of the others.

    Raises:
        CompileError: a kernel does not compile.
    """
    values = (v for kernel in program.kernels for v in kernel.template.values())
    if program.is_generic and any(type(value) is str for value in values):
        return None
    other = beside or program
    told = tuple(map(_facts, program.kernels, other.kernels))
    try:
        bound = normalise(_with_facts(program, told)).bind(task.graph.input_types)
        return tuple(map(_digest, bound.launches, [bound] * len(bound.launches)))
    except InputError:
        return None


def _digest(launch: Launch, bound: BoundProgram) -> str:
    rendered = render(launch, bound)
    parts = [
        Section(file, text.replace(rendered.name, _NAME))
        for file, text in (
            ("header", rendered.header),
            ("signature", rendered.signature),
            ("source", rendered.source),
        )
    ]
    kernel = launch.kernel
    options = (kernel.ensure_row_contiguous, kernel.atomic_outputs, kernel.init_value)
    roles = [(buffer.array, buffer.role, buffer.parameter.space) for buffer in rendered.buffers]
    described = repr((launch.grid, launch.threadgroup, options, roles))
    unit = prepare(parts, prelude="mlx", math_mode=kernel.math_mode)
    code = compile_unit(unit, "plain").path.read_bytes()
    return hashlib.sha256(described.encode() + code).hexdigest()


def _with_facts(program: Program, told: tuple[str, ...]) -> Program:
    kernels = tuple(
        kernel.model_copy(update={"source": f"{facts}\n{kernel.source}"})
        for kernel, facts in zip(program.kernels, told, strict=True)
    )
    return program.model_copy(update={"kernels": kernels})


def _facts(kernel: Kernel, other: Kernel) -> str:
    """Return statements that tell the compiler what a launch fixes, for attributes of either."""
    words = {t.text for text in (kernel.source, other.source) for t in tokenize(text)}
    if (kernel.grid, kernel.threadgroup) != (other.grid, other.threadgroup):
        return ""
    limits = _limits(kernel.grid, kernel.threadgroup)
    return " ".join(
        f"__builtin_assume({name} < {limit}u);"
        for name, limit in limits
        if name.partition(".")[0] in words
    )


def _limits(grid: Dimensions, threadgroup: Dimensions) -> Iterator[tuple[str, int]]:
    """Yield each attribute with what it stays below, where the launch is made of numbers."""
    for axis, threads, group in zip(_AXES, grid, threadgroup, strict=True):
        if isinstance(threads, int):
            yield f"thread_position_in_grid.{axis}", threads
        if isinstance(group, int):
            yield f"thread_position_in_threadgroup.{axis}", group
        if isinstance(threads, int) and isinstance(group, int):
            yield f"threadgroup_position_in_grid.{axis}", -(-threads // group)
    sizes = [group for group in threadgroup if isinstance(group, int)]
    if len(sizes) == len(_AXES):
        threads = prod(sizes)
        yield "thread_index_in_threadgroup", threads
        yield "thread_index_in_simdgroup", min(threads, _SIMDGROUP)
        yield "simdgroup_index_in_threadgroup", -(-threads // _SIMDGROUP)
