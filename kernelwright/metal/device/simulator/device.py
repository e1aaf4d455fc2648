"""The `simulator` device: MLX's own text for a program, compiled and run on the CPU."""

import platform
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import DeviceError, InputError
from kernelwright.metal.device.base import (
    METAL_THREADGROUP_BYTES,
    STANDING_FOR,
    Condition,
    DeviceInfo,
    RunOptions,
)
from kernelwright.metal.device.executable import Array, Changes, RunResult
from kernelwright.metal.device.simulator.branches.table import ConditionTable
from kernelwright.metal.device.simulator.compiler import Image, compile_unit
from kernelwright.metal.device.simulator.dispatch import Dispatch
from kernelwright.metal.device.simulator.launch_limit import refuse_many_threads
from kernelwright.metal.device.simulator.memory import GuardedArray, InputCopy, layout
from kernelwright.metal.device.simulator.record import Buffer, Code, Outcome
from kernelwright.metal.device.simulator.runtime import launch
from kernelwright.metal.device.simulator.toolchain import Variant, compiler_version
from kernelwright.metal.device.simulator.unit import Section, Unit, prepare
from kernelwright.metal.device.threadgroup_memory import chip_with
from kernelwright.metal.kernel import BoundProgram, Launch
from kernelwright.metal.msl.signature import Entry
from kernelwright.metal.msl.thread_array import thread_array_bytes
from kernelwright.metal.render import Rendered, RenderedBuffer, Role, render


class SimulatorDevice:
    """Every machine's Metal: right or wrong it can tell, fast or slow only predict."""

    def __init__(
        self, threadgroup_bytes: int = METAL_THREADGROUP_BYTES, stands_for: str = ""
    ) -> None:
        """Stand for a GPU whose threadgroups may take so much memory, or for a named chip."""
        self._threadgroup_bytes = threadgroup_bytes
        self._stands_for = stands_for

    @cached_property
    def info(self) -> DeviceInfo:
        """Return the processor and the versions that compile and run."""
        return DeviceInfo(
            name="simulator",
            chip=chip_with(self._chip, self._threadgroup_bytes),
            runtime=f"mlx {version('mlx')}, {_compiler()}",
            measures_time=False,
            threadgroup_bytes=self._threadgroup_bytes,
        )

    @property
    def _chip(self) -> str:
        named = f"{STANDING_FOR}{self._stands_for}" if self._stands_for else ""
        return f"{platform.machine()}{named}"

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> "SimulatorExecutable":
        """Compile every kernel, several at once; other builds follow when a run needs them."""
        with ThreadPoolExecutor(max_workers=max(len(program.launches), 1)) as pool:
            limit = self._threadgroup_bytes
            units = tuple(pool.map(lambda one: _prepared(one, program, limit), program.launches))
        executable = SimulatorExecutable(program, units, limit)
        executable.images("sanitize" if sanitize else "plain")
        return executable


def _compiler() -> str:
    """Name the compiler; a plan and an export need the device's limits and no compiler."""
    try:
        return compiler_version()
    except DeviceError:
        return "no compiler"


@dataclass(frozen=True)
class PreparedLaunch:
    """A launch with its text rewritten."""

    launch: Launch
    rendered: Rendered
    unit: Unit


def _prepared(one: Launch, program: BoundProgram, threadgroup_bytes: int) -> PreparedLaunch:
    rendered = render(one, program)
    sections = [
        Section("header", rendered.header, shown=one.kernel.header),
        Section("signature", rendered.signature),
        Section("source", rendered.source, shown=one.kernel.source),
    ]
    unit = prepare(
        sections,
        prelude="mlx",
        math_mode=one.kernel.math_mode,
        threadgroup_bytes=threadgroup_bytes,
        sees_addresses=False,
    )
    return PreparedLaunch(one, rendered, unit)


class SimulatorExecutable:
    """A program compiled for this machine's processor."""

    def __init__(
        self,
        program: BoundProgram,
        launches: tuple[PreparedLaunch, ...],
        threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    ) -> None:
        self._program = program
        self.threadgroup_bytes = threadgroup_bytes
        self._launches = launches
        self._images: dict[Variant, tuple[Image, ...]] = {}
        self._forms: dict[tuple[Variant, int], Image] = {}
        self.waits: Counter[tuple[Variant, int]] = Counter()
        """How often the threads of each launch's builds have waited on fibers so far."""
        self.parted: set[int] = set()
        """Launches whose lanes have waited at different places: fibers alone have their order."""

    def images(self, variant: Variant) -> tuple[Image, ...]:
        """Return one build of every launch."""
        if variant not in self._images:
            with ThreadPoolExecutor(max_workers=len(self._launches)) as pool:
                self._images[variant] = tuple(
                    pool.map(lambda one: compile_unit(one.unit, variant), self._launches)
                )
        return self._images[variant]

    def form(self, variant: Variant, number: int) -> Image:
        """Return a build of one launch alone, for 32 lanes at a time or metered."""
        if (variant, number) not in self._forms:
            self._forms[variant, number] = compile_unit(self._launches[number].unit, variant)
        return self._forms[variant, number]

    def run(self, inputs: Sequence[Array], options: RunOptions) -> RunResult:
        """Run every launch in order; counting beside sanitizing runs the program twice."""
        if options.fast_error == "worst":
            usual = options.model_copy(update={"fast_error": "usual"})
            return self._at_worst.run(inputs, usual)
        self._check(inputs)
        if options.sanitize and options.count:
            counted = self.run(inputs, options.model_copy(update={"sanitize": False}))
            sanitized = self.run(inputs, options.model_copy(update={"count": False}))
            return sanitized.model_copy(update={"counters": counted.counters})
        run = self._prepared(inputs, options)
        run.execute()
        return run.result()

    @cached_property
    def _at_worst(self) -> "SimulatorExecutable":
        """The same program, whose `fast::` functions err by all that Apple documents."""
        launches = tuple(
            replace(one, unit=replace(one.unit, fast_error="worst")) for one in self._launches
        )
        return SimulatorExecutable(self._program, launches, self.threadgroup_bytes)

    def run_changed(
        self, inputs: Sequence[Array], changes: Sequence[Changes], options: RunOptions
    ) -> RunResult:
        """Run in the same memory again and again: results are poisoned, inputs compared each time.

        A kernel's build is chosen for the work of all runs together.
        """
        self._check(inputs)
        run = self._prepared([np.array(array) for array in inputs], options)
        run.repeats = len(changes[0].positions)
        outputs, canaries, intact = list[tuple[Array, ...]](), list[tuple[bool, ...]](), True
        for number in range(run.repeats):
            shared = [
                run.change(one.place, one.positions[number], one.values[number]) for one in changes
            ]
            run.execute()
            outputs.append(tuple(made.result for made in run.outputs))
            canaries.append(tuple(made.is_intact for made in run.outputs))
            intact = intact and run.inputs_intact
            for one, values in zip(changes, shared, strict=True):
                run.change(one.place, one.positions[number], values)
        return RunResult(
            outputs=tuple(map(np.stack, zip(*outputs, strict=True))),
            canaries_intact=tuple(map(all, zip(*canaries, strict=True))),
            inputs_intact=intact,
            elapsed_s=sum(outcome.elapsed_s for outcome in run.outcomes),
        )

    def _prepared(self, inputs: Sequence[Array], options: RunOptions) -> "_Run":
        variant = _variant(options)
        # Threadgroups outside of a counting launch's sample run the plain build.
        uncounted = self.images("plain" if options.count else variant)
        builds = tuple(zip(self.images(variant), uncounted, strict=True))
        return _Run(self, self._program, self._launches, builds, inputs, options)

    def _check(self, inputs: Sequence[Array]) -> None:
        wanted = self._program.inputs
        if len(inputs) != len(wanted):
            raise InputError(f"the program takes {len(wanted)} arrays, found {len(inputs)}.")
        for tensor, type_, array in zip(self._program.program.inputs, wanted, inputs, strict=True):
            if array.shape != type_.shape or array.dtype != type_.dtype.numpy:
                raise InputError(
                    f"{tensor.name} is {type_} in the program, found {array.dtype}{array.shape}."
                )


def _variant(options: RunOptions) -> Variant:
    if options.sanitize:
        return "sanitize"
    return "count" if options.count else "branches" if options.watch else "plain"


class _Run:
    """The arrays of one run, and what its launches reported."""

    def __init__(
        self,
        executable: SimulatorExecutable,
        program: BoundProgram,
        launches: tuple[PreparedLaunch, ...],
        builds: tuple[tuple[Image, Image], ...],
        inputs: Sequence[Array],
        options: RunOptions,
    ) -> None:
        self.executable, self.program = executable, program
        self.launches, self.builds = launches, builds
        self.options = options
        names = [t.name for t in program.program.inputs]
        self.originals = dict(zip(names, inputs, strict=True))
        self.copies: dict[tuple[str, bool], InputCopy] = {}
        self.made: dict[str, GuardedArray] = {}
        self.outcomes: list[Outcome] = []
        self.conditions: list[Condition] = []
        self.repeats = 1
        """How often it executes: a build that takes longer and runs faster pays sooner."""

    def change(self, place: int, positions: NDArray[np.intp], values: Array) -> Array:
        """Give elements of a dense input other values, in its copies too; return the old ones."""
        name = self.program.program.inputs[place].name
        original = self.originals[name].reshape(-1)
        old = original[positions]
        original[positions] = values
        for (copied, _), copy in self.copies.items():
            if copied == name:
                copy.storage[positions] = values
        return old

    def execute(self) -> None:
        """Run every launch on what the ones before it made."""
        for number in range(len(self.launches)):
            table = self._table(number)
            outcome = self._launch(number)
            self.outcomes.append(outcome)
            self.executable.waits[self.builds[number][0].variant, number] += outcome.waits
            if outcome.parted:
                self.executable.parted.add(number)
            if table is not None:
                names = [b.array for b in self.launches[number].rendered.buffers]
                self.conditions += table.read(number, names)

    def _table(self, number: int) -> ConditionTable | None:
        """Return what notes the conditions of a launch that is to be watched, emptied."""
        image, _ = self.builds[number]
        if not (self.options.watch and image.conditions):
            return None
        table = ConditionTable(image.path, image.conditions)
        table.reset(one for one in self.options.forced if one.launch == number)
        return table

    def _launch(self, number: int) -> Outcome:
        prepared, (image, uncounted) = self.launches[number], self.builds[number]
        one = prepared.launch
        # MLX compares the whole threadgroup with the limit before it clamps it to the grid.
        refuse_many_threads(one.kernel.name, one.threadgroup)
        for name in one.kernel.outputs:
            if name in self.made:
                self.made[name].refill(self.options.poison, one.kernel.init_value)
                continue
            self.made[name] = GuardedArray.of(
                self.program.type_of(name),
                poison=self.options.poison,
                padding=self.options.padding_bytes,
                before=self.options.padding_before(name),
                placement=self.options.placement(name),
                init_value=one.kernel.init_value,
            )
        dispatch = Dispatch.of(
            self._code(number, image),
            kernel=one.kernel.name,
            grid=one.grid,
            threadgroup=one.threadgroup,
            options=self.options,
            variables=image.variables,
            uncounted=self._code(number, uncounted),
            threadgroup_bytes=self.executable.threadgroup_bytes,
        )
        buffers = [self._buffer(b, one) for b in prepared.rendered.buffers]
        return launch(dispatch, buffers, metered=lambda: self._metered(number))

    def _metered(self, number: int) -> Code:
        image = self.executable.form("metered", number)
        return image.code(self._entry(self.launches[number], image))

    def _code(self, number: int, image: Image) -> Code:
        """Return what a launch runs of a build, with the form that is faster where one is."""
        prepared = self.launches[number]
        entry = self._entry(prepared, image)
        code = image.code(entry)
        threads = prod(prepared.launch.grid) * self.repeats
        waits = self.executable.waits[image.variant, number]
        is_together = number not in self.executable.parted
        if is_together and image.gains_from_width(entry, self.options, threads, waits):
            return self.executable.form("wide", number).widen(code)
        if image.gains_from_vetting(entry, self.options, threads, waits):
            return self.executable.form("vet", number).vet(code)
        return code

    def _entry(self, prepared: PreparedLaunch, image: Image) -> Entry:
        return next(e for e in image.entries if e.name == prepared.rendered.name)

    def _buffer(self, buffer: RenderedBuffer, one: Launch) -> Buffer:
        name, kernel = buffer.parameter.name, one.kernel
        if buffer.role != "data":
            shape, strides, ndim = layout(self._array(buffer.array, one))
            described: dict[Role, Array] = {"shape": shape, "strides": strides, "ndim": ndim}
            return Buffer(name, described[buffer.role])
        if buffer.array in kernel.outputs:
            return Buffer(
                name,
                self.made[buffer.array].array,
                writable=True,
                initialised=kernel.init_value is not None,
            )
        if buffer.array in self.made:
            return Buffer(name, self.made[buffer.array].array)
        return Buffer(name, self._copy(buffer.array, one).storage)

    def _array(self, name: str, one: Launch) -> Array:
        return self.made[name].array if name in self.made else self._copy(name, one).array

    def _copy(self, name: str, one: Launch) -> InputCopy:
        contiguous = one.kernel.ensure_row_contiguous
        if (name, contiguous) not in self.copies:
            original = self.originals[name]
            self.copies[name, contiguous] = InputCopy.of(
                original,
                row_contiguous=contiguous,
                poison=self.options.poison,
                padding=self.options.padding_bytes,
                before=self.options.padding_before(f"{name} {contiguous}"),
                placement=self.options.placement(f"{name} {contiguous}"),
            )
        return self.copies[name, contiguous]

    @property
    def outputs(self) -> tuple[GuardedArray, ...]:
        """Return the program's outputs."""
        return tuple(self.made[t.name] for t in self.program.program.outputs)

    @property
    def inputs_intact(self) -> bool:
        """Say whether no launch changed an input, or what surrounds it."""
        return all(copy.is_intact for copy in self.copies.values())

    def result(self) -> RunResult:
        """Gather what the run left behind."""
        return RunResult(
            outputs=tuple(o.result for o in self.outputs),
            canaries_intact=tuple(o.is_intact for o in self.outputs),
            inputs_intact=self.inputs_intact,
            reports=tuple(report for o in self.outcomes for report in o.reports),
            counters=tuple(
                outcome.counters.model_copy(update={"thread_array_bytes": _array_bytes(one.launch)})
                for outcome, one in zip(self.outcomes, self.launches, strict=True)
                if outcome.counters is not None
            ),
            conditions=tuple(self.conditions),
            elapsed_s=sum(o.elapsed_s for o in self.outcomes),
        )


def _array_bytes(launch: Launch) -> int:
    extents = {n: v for n, v in launch.template if isinstance(v, int)}
    return thread_array_bytes(launch.kernel.source, extents)
