"""Proof that a mutant is no other program: both texts compile to the same machine code."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.mutate.launch_fact import (
    MOST_ELEMENTS,
    with_facts,
    with_index_bounds,
    with_open_sizes,
)
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.simulator.compiler import whole_object
from kernelwright.metal.device.simulator.unit import Section, Unit, prepare
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.kernel import BoundProgram, Launch, MathMode, Program
from kernelwright.metal.msl.token import tokenize
from kernelwright.metal.render import Rendered, render

_OF_THE_GRID = frozenset(("thread_position_in_grid", "threads_per_grid"))
_OF_THE_THREADGROUP = ("thread", "simd", "quad", "dispatch")
"""In the names of what a thread knows, shares or waits for."""
_MOST_THREADS = 1024
"""Of a threadgroup, in Metal."""
_NAME = "kernel_under_test"
"""Stands for MLX's name of a kernel, which holds a hash of its text."""


def machine_code(
    task: Task, program: Program, beside: Program | None = None
) -> tuple[str, ...] | None:
    """Return a digest of each kernel's code at the task's shape; None where that proves nothing.

    The compiler is told what each launch fixes, such as how many threads there are, and between
    what indices lie that the task allows; calls become part of the kernel: a guard that no thread
    can meet leaves no code. Two programs' digests are comparable when each was made `beside` the
    other, which has both told the same.

    A program of symbolic shape whose template arguments follow its sizes is another text at every
    size: the compiler is not told these arguments, so that its code is that of all sizes.

    Raises:
        CompileError: a kernel does not compile.
    """
    try:
        opened = with_open_sizes(program) if program.is_generic else program
        told = with_facts(opened, beside or program)
        return _digests_of_either(task, (with_index_bounds(told, index_limits(task, told)), told))
    except InputError:
        return None
    except CompileError:
        # The facts may be what does not compile.
        _digests(task, program)
        return None


def _digests_of_either(task: Task, programs: Sequence[Program]) -> tuple[str, ...]:
    """Return the digests of the first program that compiles."""
    for program in programs[:-1]:
        with suppress(CompileError):
            return _digests(task, program)
    return _digests(task, programs[-1])


def index_limits(task: Task, program: Program) -> dict[str, int]:
    """Return below what the elements of inputs lie that are indices and not bounded by the task.

    Where sizes are symbolic, so may that of the axis which is indexed be.
    """
    return {
        tensor.name: MOST_ELEMENTS if program.is_generic else domain.index_limit
        for tensor, domain in zip(program.inputs, domains_of(task.graph), strict=True)
        if domain.index_limit is not None
        and not (domain.is_bounded_below or domain.is_bounded_above)
    }


def _digests(task: Task, program: Program) -> tuple[str, ...]:
    bound = normalise(program).bind(task.graph.input_types)
    return tuple(map(_digest, bound.launches, [bound] * len(bound.launches)))


def _digest(launch: Launch, bound: BoundProgram) -> str:
    rendered = render(launch, bound)
    kernel = launch.kernel
    options = (kernel.ensure_row_contiguous, kernel.atomic_outputs, kernel.init_value)
    roles = [(buffer.array, buffer.role, buffer.parameter.space) for buffer in rendered.buffers]
    threadgroup = launch.threadgroup if _sees_threadgroup(launch) else None
    described = repr((launch.grid, threadgroup, options, roles))
    code = _compiled(texts_of(rendered), kernel.math_mode)
    return hashlib.sha256(described.encode() + code).hexdigest()


def _sees_threadgroup(launch: Launch) -> bool:
    """Say whether a kernel could tell how its grid is divided; too many threads cannot start."""
    if prod(launch.threadgroup) > _MOST_THREADS:
        return True
    tokens = {token.text for token in tokenize(launch.kernel.header + launch.kernel.source)}
    seen = tokens - _OF_THE_GRID
    return any(word in text for text in seen for word in _OF_THE_THREADGROUP)


def texts_of(rendered: Rendered) -> tuple[str, str, str]:
    """Return a kernel's header, signature and source under a name that is the same for all."""
    header, signature, source = (
        text.replace(rendered.name, _NAME)
        for text in (rendered.header, rendered.signature, rendered.source)
    )
    return header, signature, source


def unit_of(texts: tuple[str, str, str], math_mode: MathMode) -> Unit:
    """Return what the compiler takes of a kernel's header, signature and source."""
    files = ("header", "signature", "source")
    sections = [Section(file, text) for file, text in zip(files, texts, strict=True)]
    return prepare(sections, prelude="mlx", math_mode=math_mode)


@lru_cache(maxsize=64)
def _compiled(texts: tuple[str, str, str], math_mode: MathMode) -> bytes:
    """Compile a kernel; a base's code stays for its next mutant."""
    return whole_object(unit_of(texts, math_mode))
