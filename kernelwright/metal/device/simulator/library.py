"""A compiled Metal text: its kernels by name, launched on NumPy arrays in place."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path

from kernelwright.errors import InputError
from kernelwright.metal.device.base import FastError, RunOptions
from kernelwright.metal.device.simulator.alignment import aligned
from kernelwright.metal.device.simulator.argument import (
    Key,
    fresh_names,
    order_seed_of,
    switch,
    threadgroup_arguments,
    timeout_of,
)
from kernelwright.metal.device.simulator.binding import Binding
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.compiler import (
    MOST_WIDE_ENTRIES,
    Image,
    compile_unit,
)
from kernelwright.metal.device.simulator.dispatch import Dispatch
from kernelwright.metal.device.simulator.element import Argument
from kernelwright.metal.device.simulator.function_constant import (
    Constants,
    refuse_unset,
    values_by_index,
)
from kernelwright.metal.device.simulator.launch_limit import threadgroup_size, three_sizes
from kernelwright.metal.device.simulator.padding import taken_bytes
from kernelwright.metal.device.simulator.record import Buffer, Code, Outcome, ThreadgroupArgument
from kernelwright.metal.device.simulator.runtime import launch
from kernelwright.metal.device.simulator.toolchain import Variant
from kernelwright.metal.device.simulator.unit import (
    Prelude,
    Section,
    Unit,
    prelude_for,
    prepare,
)
from kernelwright.metal.diagnostic import CompileError, Diagnostic, LaunchError
from kernelwright.metal.kernel import MathMode
from kernelwright.metal.msl.language import DEFAULT, LanguageVersion
from kernelwright.metal.msl.signature import Entry
from kernelwright.public_call import check_types

_MOST_KEPT = 64
"""Launches of different sizes that a kernel keeps what it can of."""


@dataclass(repr=False)
class Library:
    """A Metal text that compiles; builds for sanitizing and counting are made when needed."""

    unit: Unit
    _images: dict[tuple[str, tuple[tuple[int, float], ...]], Image] = field(default_factory=dict)
    parted: set[str] = field(default_factory=set)
    """Kernels whose lanes have waited at different places: fibers alone have their order."""
    waits: Counter[tuple[Variant, str]] = field(default_factory=Counter)
    """How often the threads of each kernel have waited on fibers so far, by build."""

    def __repr__(self) -> str:
        """Name the kernels; the unit's tokens and trees are nothing to read."""
        return f"Library(kernels={', '.join(self.kernels) or 'none'})"

    def image(self, variant: Variant, constants: Mapping[int, int | float] | None = None) -> Image:
        """Return one build of the text, with function constants by index.

        Raises:
            CompileError: the text does not compile.
            DeviceError: the compiler failed.
            InputError: there is no such build.
        """
        key = (str(variant), tuple(sorted((constants or {}).items())))
        if key not in self._images:
            check_types(Library.image, {"variant": variant})
            self._images[key] = compile_unit(self.unit, variant, constants)
        return self._images[key]

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, host names where there are any."""
        return tuple(entry.name for entry in self._any_image().entries)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the compiler warned of."""
        return self._any_image().warnings

    def _any_image(self) -> Image:
        return next(iter(self._images.values()), None) or self.image("plain")

    def kernel(self, name: str, constants: Constants | None = None) -> "SimulatedKernel":
        """Return a kernel, specialised by function constants (by name or index).

        Raises:
            LaunchError: the text has no such kernel or function constant, or its type does not
                hold the value.
            InputError: the name is no text.
        """
        check_types(Library.kernel, {"name": name})
        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise LaunchError(f"there is no kernel {name!r}; the kernels are: {known}.")
        values = {} if constants is None else constants
        return SimulatedKernel(self, name, values_by_index(self.unit.constants, values))


@dataclass(frozen=True)
class SimulatedKernel:
    """One kernel of a library."""

    library: Library
    name: str
    constants: Mapping[int, int | float]
    _codes: dict[tuple[Variant, Variant], Code] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What launches run, by the build and the faster form of it that they may take."""
    _builds: dict[Variant, tuple[Image, Entry]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The builds that launches have asked for, and its record in each."""
    _dispatches: dict[
        tuple[tuple[int, ...], tuple[int, ...], tuple[ThreadgroupArgument, ...]], Dispatch
    ] = field(default_factory=dict, compare=False, repr=False)
    """The last launch of each size."""

    def entry(self, variant: Variant = "plain") -> Entry:
        """Return the kernel's record in one build."""
        return self._entry(self.library.image(variant, self.constants))

    def _entry(self, image: Image) -> Entry:
        return next(e for e in image.entries if e.name == self.name)

    @property
    def form(self) -> str:
        """How its large launches run, and why not 32 lanes at a time where they do not."""
        plain = self.library.image("plain", self.constants)
        entry = self.entry("plain")
        if entry.symbol not in plain.waiting:
            return "rows of threads in loops, for none of them waits"
        if len(plain.entries) > MOST_WIDE_ENTRIES:
            return f"not widened: its text has more than {MOST_WIDE_ENTRIES} kernels"
        wide = self.library.image("wide", self.constants)
        if any(e.symbol == entry.symbol for e in wide.entries):
            return "widened: 32 lanes at a time"
        name = entry.symbol.removeprefix("kw_entry:")
        given = (r.removeprefix(f"{name}: ") for r in wide.unwidened if r.startswith((name, "all")))
        return f"not widened: {next(given, 'its threads wait nowhere')}"

    def launch(
        self,
        buffers: Mapping[Key, Argument] | Sequence[Argument],
        *,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        threadgroup_bytes: Mapping[Key, int] | None = None,
        fresh: Collection[Key] = (),
        sanitize: bool = False,
        count: bool = False,
        count_all: bool = False,
        order_seed: int = 0,
        timeout_s: float = 30.0,
    ) -> Outcome:
        """Run over `grid` threads, writing the arrays in place.

        Args:
            buffers: Arrays, scalars and structs by index or name, or in the order of the
                parameters.
            grid: Threads, as in Metal's `dispatchThreads`.
            threadgroup: Threads of one threadgroup.
            threadgroup_bytes: Sizes of the `[[threadgroup(n)]]` parameters, by index or name.
            fresh: Outputs that hold nothing yet: the sanitizer reports reads before writes and
                bytes that are never written.
            sanitize: Look for what a GPU hides.
            count: Count what the launch costs; not together with `sanitize`.
            count_all: Count every threadgroup, also where a launch has more than 512, of which
                otherwise a sample is counted.
            order_seed: Seeds the order in which threads run: 0 to 2^64 - 1.
            timeout_s: What it may do: some 2e9 rounds of loops a second; 1e6 at most.

        Raises:
            LaunchError: the arguments do not fit the kernel, a limit is exceeded, or it did not
                end within its budget.
            DeviceError: the machine failed.
        """
        sanitize = switch(self.name, "sanitize", sanitize)
        count_all = switch(self.name, "count_all", count_all)
        count = switch(self.name, "count", count) or count_all
        order_seed = order_seed_of(self.name, order_seed)
        timeout_s = timeout_of(self.name, timeout_s)
        if sanitize and count:
            raise LaunchError("a launch either sanitizes or counts; launch twice.")
        grid = three_sizes(self.name, "grid", grid)
        threadgroup = threadgroup_size(self.name, threadgroup)
        variant: Variant = "sanitize" if sanitize else "count" if count else "plain"
        image, entry = self._builds.get(variant) or self._new_build(variant)
        bound = self._bound(entry, image, buffers, fresh_names(entry, fresh))
        arguments = threadgroup_arguments(
            entry, {} if threadgroup_bytes is None else threadgroup_bytes
        )
        options = _options(order_seed, sanitize, count, count_all, timeout_s)
        dispatch = self._dispatch(entry, image, options, grid, threadgroup, arguments)
        with aligned(
            bound,
            entry.buffers,
            is_wide=self.library.unit.needs_width,
            is_fenced=dispatch.is_fenced,
        ) as lent:
            outcome = launch(
                dispatch,
                lent,
                metered=lambda: self.library.image("metered", self.constants).code(entry),
            )
        self.library.waits[variant, self.name] += outcome.waits
        if outcome.parted:
            self.library.parted.add(self.name)
        return outcome

    def _dispatch(
        self,
        entry: Entry,
        image: Image,
        options: RunOptions,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        arguments: tuple[ThreadgroupArgument, ...],
    ) -> Dispatch:
        """Return all of a launch but its buffers: the last one's where it is the same."""
        code = self._code(entry, image, options, prod(grid))
        uncounted = self._uncounted(entry, options, prod(grid)) if options.count else code
        key = grid, threadgroup, arguments
        last = self._dispatches.get(key)
        if last and (last.code, last.uncounted, last.options) == (code, uncounted, options):
            return last
        if len(self._dispatches) >= _MOST_KEPT:
            self._dispatches.clear()
        made = self._dispatches[key] = Dispatch.of(
            code,
            kernel=self.name,
            grid=grid,
            threadgroup=threadgroup,
            options=options,
            arguments=arguments,
            variables=image.variables,
            unset=image.unset,
            name_at=self.library.unit.name_at,
            uncounted=uncounted,
            fences=True,
        )
        return made

    def _new_build(self, variant: Variant) -> tuple[Image, Entry]:
        """Return one build, for launches, and the kernel's record in it."""
        image = self.library.image(variant, self.constants)
        entry = self._entry(image)
        refuse_unset(self.library.unit, entry, self.constants)
        self._builds[variant] = image, entry
        return image, entry

    def _bound(
        self,
        entry: Entry,
        image: Image,
        buffers: Mapping[Key, Argument] | Sequence[Argument],
        fresh: frozenset[str],
    ) -> list[Buffer]:
        """Return the buffers, which the sanitizer knows the padding and the places of."""
        bound = Binding(entry, self._disabled(entry, buffers), fresh).bind(buffers)
        if image.variant != "sanitize":
            return bound
        load_runtime()
        code, unit = image.code(entry), self.library.unit
        is_own = entry.kernel in unit.rewritten.kernels
        return [
            replace(
                buffer,
                taken=taken_bytes(code, entry, p),
                place=unit.place(p.line, p.column) if is_own else None,
            )
            for buffer, p in zip(bound, entry.buffers, strict=True)
        ]

    def _uncounted(self, entry: Entry, options: RunOptions, threads: int) -> Code:
        """Return what runs the threadgroups that a counting launch does not count."""
        return self._code(entry, self.library.image("plain", self.constants), options, threads)

    def _code(self, entry: Entry, image: Image, options: RunOptions, threads: int) -> Code:
        """Return what a launch of so many threads runs of a build."""
        waits = self.library.waits[image.variant, self.name]
        variant = form = image.variant
        is_together = self.name not in self.library.parted
        if is_together and image.gains_from_width(entry, options, threads, waits):
            form = "wide"
        elif image.gains_from_vetting(entry, options, threads, waits):
            form = "vet"
        if (variant, form) not in self._codes:
            self._codes[variant, form] = self._new_code(entry, image, form)
        return self._codes[variant, form]

    def _new_code(self, entry: Entry, image: Image, form: Variant) -> Code:
        code = image.code(entry)
        if form == "wide":
            return self.library.image("wide", self.constants).widen(code)
        if form == "vet":
            return self.library.image("vet", self.constants).vet(code)
        return code

    def _disabled(
        self, entry: Entry, buffers: Mapping[Key, Argument] | Sequence[Argument]
    ) -> frozenset[str]:
        """Return the parameters that function constants switch off.

        One that hangs on a constant which the text computes from others is off where no buffer
        is given for it.
        """
        if not (switched := [p for p in entry.parameters if p.constant]):
            return frozenset()
        indices = {c.name: c.index for c in self.library.unit.constants}
        computed = [p for p in switched if p.constant not in indices]
        off = {p.name for p in switched if p.constant in indices} - {
            p.name for p in switched if self.constants.get(indices.get(p.constant, -1), 0)
        }
        if isinstance(buffers, Mapping):
            off.update(p.name for p in computed if not {p.name, p.index} & buffers.keys())
        elif isinstance(buffers, Sequence) and len(buffers) + len(off) < len(entry.buffers):
            off.update(p.name for p in computed)
        return frozenset(off)


@lru_cache(maxsize=64)
def _options(
    order_seed: int, sanitize: bool, count: bool, counts_all: bool, timeout_s: float
) -> RunOptions:
    return RunOptions(
        order_seed=order_seed,
        sanitize=sanitize,
        count=count,
        counts_all=counts_all,
        timeout_s=timeout_s,
    )


def compile(  # noqa: A001 (the public name: metal.simulator.compile)
    source: str,
    header: str = "",
    *,
    prelude: Prelude | None = None,
    folders: Sequence[Path | str] = (),
    math_mode: MathMode = "safe",
    language: LanguageVersion = DEFAULT,
    fast_error: FastError = "usual",
    variant: Variant = "plain",
) -> Library:
    """Compile a Metal text for this machine.

    Args:
        source: The text: a plain `.metal` file, or what MLX generates for a kernel.
        header: Text before it.
        prelude: What stands before both; by default MLX's own headers, unless the text includes
            a Metal header itself.
        folders: Where `#include "…"` looks.
        math_mode: What the compiler may assume of floats, as in MLX's `compile_options`.
        language: The version of Metal's language, by default that of macOS 26.
        fast_error: `worst` moves each result of `fast::` by the error that Apple documents.
        variant: A build to make at once besides the plain one; others are made when a launch asks
            for them.

    Raises:
        CompileError: Metal refuses the text.
        DeviceError: the compiler failed.
        InputError: an argument is not of its type, or a text cannot be encoded.
    """
    given = {"source": source, "header": header, "prelude": prelude, "folders": folders}
    given |= {"math_mode": math_mode, "language": language}
    check_types(compile, given | {"fast_error": fast_error, "variant": variant})
    for name, text in (("header", header), ("source", source)):
        _refuse_unencodable(name, text)
    sections = [Section("header", header)] if header else []
    sections.append(Section("source", source))
    unit = prepare(
        sections,
        prelude=prelude or prelude_for(header + source),
        folders=[Path(folder) for folder in folders],
        math_mode=math_mode,
        language=language,
        fast_error=fast_error,
    )
    library = Library(unit)
    # Beside this build the text is searched for what Apple refuses and clang takes.
    library.image("plain")
    library.image(variant)
    return library


def _refuse_unencodable(name: str, text: str) -> None:
    """Refuse a text with half of a character, as reading bytes with `surrogateescape` makes it.

    Raises:
        InputError: it has one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as e:
        line = text.count("\n", 0, e.start) + 1
        raise InputError(
            f"{name} has no character at line {line} but half of one, {text[e.start]!r}; pass text "
            f"that was decoded as UTF-8."
        ) from e


__all__ = ["Argument", "CompileError", "Key", "Library", "SimulatedKernel", "compile"]
