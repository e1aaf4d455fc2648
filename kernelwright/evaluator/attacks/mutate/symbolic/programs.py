"""Proof that two programs leave the same in memory, by the kernels in which they differ."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.attacks.mutate.equivalence import index_limits, texts_of, unit_of
from kernelwright.evaluator.attacks.mutate.launch_fact import (
    most_threads,
    with_facts,
    with_index_bounds,
)
from kernelwright.evaluator.attacks.mutate.symbolic.listing import read
from kernelwright.evaluator.attacks.mutate.symbolic.proof import STEPS, Dispatch, is_same
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.simulator.compiler import whole_listing
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.extent import symbols_in
from kernelwright.metal.kernel import Extent, MathMode, Program
from kernelwright.metal.render import render

_MAY_DIFFER = {"source", "header", "template", "grid", "threadgroup"}
"""What two kernels may differ in that are compared."""


def leave_the_same(task: Task, one: Program, other: Program, steps: int = STEPS) -> bool:
    """Say whether it is proven that two programs give the same bits on every input of a task.

    A NaN's payload may differ. The proof holds at all sizes that a program of symbolic shape has.
    False proves nothing.
    """
    try:
        places = _places(one, other)
        return bool(places) and all(_are_same(task, one, other, place, steps) for place in places)
    except (KernelwrightError, RecursionError, LookupError, ValueError):
        # The last two come of listings that are written in an unknown way.
        return False


def _places(one: Program, other: Program) -> tuple[int, ...]:
    """Return which kernels differ; none where the programs differ in what is not compared."""
    if len(one.kernels) != len(other.kernels):
        return ()
    if one.model_dump(exclude={"kernels"}) != other.model_dump(exclude={"kernels"}):
        return ()
    places = []
    for place, kernels in enumerate(zip(one.kernels, other.kernels, strict=True)):
        first, second = (kernel.model_dump(exclude=_MAY_DIFFER) for kernel in kernels)
        follows_sizes = any(
            type(value) is str for kernel in kernels for value in kernel.template.values()
        )
        if first != second or any(_is_open(size) for k in kernels for size in k.threadgroup):
            return ()
        if kernels[0] != kernels[1]:
            if one.is_generic and follows_sizes:
                return ()
            places.append(place)
    return tuple(places)


def _is_open(extent: Extent) -> bool:
    return isinstance(extent, str) and bool(symbols_in(extent))


@dataclass(frozen=True)
class _Compiled:
    listing: str
    buffers: tuple[str, ...]
    """The arrays that the kernel is given, in order."""
    dispatch: Dispatch


def _are_same(task: Task, one: Program, other: Program, place: int, steps: int) -> bool:
    kernels = one.kernels[place], other.kernels[place]
    for first, second in zip(*(kernel.grid for kernel in kernels), strict=True):
        if first != second and (_is_open(first) or _is_open(second)):
            return False
    for programs in _told(task, one, other):
        try:
            first, second = (_compiled(task, program, place) for program in programs)
        except CompileError:
            continue
        is_comparable = first.buffers == second.buffers
        return is_comparable and is_same(
            read(first.listing), read(second.listing), first.dispatch, second.dispatch, steps
        )
    return False


def _told(task: Task, one: Program, other: Program) -> Iterator[tuple[Program, Program]]:
    """Yield both programs with all that the compiler may know, then with less."""
    told = with_facts(one, other), with_facts(other, one)
    limits = index_limits(task, one)
    yield with_index_bounds(told[0], limits), with_index_bounds(told[1], limits)
    yield told
    yield one, other


def _compiled(task: Task, program: Program, place: int) -> _Compiled:
    bound = normalise(program).bind(task.graph.input_types)
    launch, kernel = bound.launches[place], program.kernels[place]
    rendered = render(launch, bound)
    most = most_threads(kernel, program)
    is_open = tuple(map(_is_open, kernel.grid))
    x, y, z = (m if o else n for m, o, n in zip(most, is_open, launch.grid, strict=True))
    return _Compiled(
        _listing(texts_of(rendered), kernel.math_mode),
        tuple(f"{buffer.array} {buffer.role}" for buffer in rendered.buffers),
        Dispatch((x, y, z), launch.threadgroup, (is_open[0], is_open[1], is_open[2])),
    )


@lru_cache(maxsize=16)
def _listing(texts: tuple[str, str, str], math_mode: MathMode) -> str:
    return whole_listing(unit_of(texts, math_mode))
