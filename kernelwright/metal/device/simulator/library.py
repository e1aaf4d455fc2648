"""A compiled Metal text: its kernels by name, launched on NumPy arrays in place."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np

from kernelwright.metal.device.base import FastError, RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.compiler import (
    MOST_WIDE_ENTRIES,
    Image,
    compile_unit,
)
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
from kernelwright.metal.msl.signature import Entry, Parameter

Argument = Array | np.generic | bytes | bool | int | float
"""What a kernel's buffer may be: an array, a scalar, or the bytes of a struct."""
Key = int | str
"""A buffer's index, or the parameter's name."""
Constants = Mapping[Key, bool | int | float]

_SCALARS: Mapping[str, np.dtype[np.generic]] = {
    name: np.dtype(type_)
    for type_, names in {
        np.bool_: ("bool",),
        np.uint8: ("uchar", "uint8_t", "unsigned char"),
        np.int8: ("char", "int8_t", "signed char"),
        np.uint16: ("ushort", "uint16_t", "unsigned short"),
        np.int16: ("short", "int16_t"),
        np.uint32: ("uint", "uint32_t", "unsigned int", "unsigned"),
        np.int32: ("int", "int32_t"),
        np.uint64: ("ulong", "uint64_t", "size_t", "unsigned long"),
        np.int64: ("long", "int64_t", "ptrdiff_t"),
        np.float16: ("half", "float16_t"),
        np.float32: ("float", "float32_t"),
        ml_dtypes.bfloat16: ("bfloat", "bfloat16_t"),
    }.items()
    for name in names
}


@dataclass(repr=False)
class Library:
    """A Metal text that compiles; builds for sanitizing and counting are made when needed."""

    unit: Unit
    _images: dict[tuple[Variant, tuple[tuple[int, float], ...]], Image] = field(
        default_factory=dict
    )
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
        """
        key = (variant, tuple(sorted((constants or {}).items())))
        if key not in self._images:
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
            LaunchError: the text has no such kernel or function constant.
        """
        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise LaunchError(f"there is no kernel {name!r}; the kernels are: {known}.")
        return SimulatedKernel(self, name, self._by_index(constants or {}))

    def _by_index(self, constants: Constants) -> dict[int, int | float]:
        indices = {c.name: c.index for c in self.unit.constants}
        found: dict[int, int | float] = {}
        for key, value in constants.items():
            index = indices.get(key, -1) if isinstance(key, str) else key
            if index not in indices.values():
                known = ", ".join(f"{n} ({i})" for n, i in indices.items()) or "none"
                raise LaunchError(
                    f"there is no function constant {key!r}; the constants are: {known}."
                )
            found[index] = int(value) if isinstance(value, bool) else value
        return found


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
            order_seed: Seeds the order in which threads run.
            timeout_s: What it may do: some 2e9 rounds of loops a second.

        Raises:
            LaunchError: the arguments do not fit the kernel, a limit is exceeded, or it did not
                end within its budget.
            DeviceError: the machine failed.
        """
        if sanitize and count:
            raise LaunchError("a launch either sanitizes or counts; launch twice.")
        variant: Variant = "sanitize" if sanitize else "count" if count else "plain"
        image = self.library.image(variant, self.constants)
        entry = self._entry(image)
        options = _options(order_seed, sanitize, count, timeout_s)
        outcome = launch(
            self._code(entry, image, options, prod(grid)),
            _Binding(entry, self._disabled(entry, buffers), fresh).bind(buffers),
            kernel=self.name,
            grid=grid,
            threadgroup=threadgroup,
            threadgroup_arguments=_threadgroups(entry, threadgroup_bytes or {}),
            threadgroup_variables=image.variables,
            unset=image.unset,
            name_at=self.library.unit.name_at,
            uncounted=self._uncounted(entry, options, prod(grid)) if count else None,
            metered=lambda: self.library.image("metered", self.constants).code(entry),
            options=options,
        )
        self.library.waits[variant, self.name] += outcome.waits
        return outcome

    def _uncounted(self, entry: Entry, options: RunOptions, threads: int) -> Code:
        """Return what runs the threadgroups that a counting launch does not count."""
        return self._code(entry, self.library.image("plain", self.constants), options, threads)

    def _code(self, entry: Entry, image: Image, options: RunOptions, threads: int) -> Code:
        """Return what a launch of so many threads runs of a build."""
        waits = self.library.waits[image.variant, self.name]
        variant = form = image.variant
        if image.gains_from_width(entry, options, threads, waits):
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
        elif len(buffers) + len(off) < len(entry.buffers):
            off.update(p.name for p in computed)
        return frozenset(off)


@lru_cache(maxsize=64)
def _options(order_seed: int, sanitize: bool, count: bool, timeout_s: float) -> RunOptions:
    return RunOptions(order_seed=order_seed, sanitize=sanitize, count=count, timeout_s=timeout_s)


@dataclass(frozen=True)
class _Binding:
    """Matches what a caller passes to a kernel's parameters."""

    entry: Entry
    disabled: frozenset[str]
    fresh: Collection[Key]

    def bind(self, buffers: Mapping[Key, Argument] | Sequence[Argument]) -> list[Buffer]:
        """Return the runtime's buffers, by slot."""
        parameters = [p for p in self.entry.buffers if p.name not in self.disabled]
        given = self._by_name(buffers, parameters)
        return [
            self._buffer(p, given[p.name])
            if p.name not in self.disabled
            else Buffer(p.name, np.zeros(16, np.uint8))
            for p in self.entry.buffers
        ]

    def _by_name(
        self, buffers: Mapping[Key, Argument] | Sequence[Argument], parameters: list[Parameter]
    ) -> dict[str, Argument]:
        if not isinstance(buffers, Mapping):
            if len(buffers) != len(parameters):
                raise LaunchError(
                    f"{self.entry.name} takes {len(parameters)} buffers ({_listed(parameters)}), "
                    f"found {len(buffers)}."
                )
            return {p.name: b for p, b in zip(parameters, buffers, strict=True)}
        names = {p.index: p.name for p in self.entry.buffers}
        known = {p.name for p in self.entry.buffers}
        given: dict[str, Argument] = {}
        for key, value in buffers.items():
            name = names.get(key, "") if isinstance(key, int) else key
            if name not in known:
                raise LaunchError(
                    f"{self.entry.name} has no buffer {key!r}; its buffers are: "
                    f"{_listed(parameters)}."
                )
            given[name] = value
        if missing := [p.name for p in parameters if p.name not in given]:
            raise LaunchError(f"{self.entry.name} also needs the buffers {', '.join(missing)}.")
        return given

    def _buffer(self, parameter: Parameter, value: Argument) -> Buffer:
        is_fresh = parameter.name in self.fresh or parameter.index in self.fresh
        array = value if isinstance(value, np.ndarray) else _scalar(parameter, value)
        if not array.flags.c_contiguous:
            raise LaunchError(
                f"the array of {parameter.name} is not contiguous; pass np.ascontiguousarray(…)."
            )
        writable = not parameter.is_const
        if writable and isinstance(value, np.ndarray) and not value.flags.writeable:
            raise LaunchError(f"the kernel writes {parameter.name}, whose array is read-only.")
        return Buffer(parameter.name, array, writable=writable, initialised=not is_fresh)


def _listed(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{p.name} ({p.index})" for p in parameters)


def _scalar(parameter: Parameter, value: Argument) -> Array:
    if isinstance(value, bytes):
        return np.frombuffer(bytearray(value), np.uint8)
    if isinstance(value, np.generic):
        return np.array([value])
    dtype = _SCALARS.get(parameter.type)
    if dtype is None:
        raise LaunchError(
            f"{parameter.name} is of type {parameter.type}; pass a NumPy scalar, an array or the "
            f"bytes of it, found {value!r}."
        )
    return np.array([value]).astype(dtype)


def _threadgroups(entry: Entry, sizes: Mapping[Key, int]) -> list[ThreadgroupArgument]:
    arguments = []
    for p in entry.threadgroups:
        size = sizes.get(p.name, sizes.get(p.index, 0))
        if size <= 0:
            raise LaunchError(
                f"{entry.name} needs the size in bytes of its threadgroup argument {p.name} "
                f"({p.index}); pass threadgroup_bytes."
            )
        itemsize = _SCALARS[p.type].itemsize if p.type in _SCALARS else 4
        arguments.append(ThreadgroupArgument(p.name, size, itemsize))
    return arguments


def compile(  # noqa: A001 (the public name: metal.simulator.compile)
    source: str,
    header: str = "",
    *,
    prelude: Prelude | None = None,
    folders: Sequence[Path] = (),
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
        variant: The build to make at once; others are made when a launch asks for them.

    Raises:
        CompileError: Metal refuses the text.
        DeviceError: the compiler failed.
    """
    sections = [Section("header", header)] if header else []
    sections.append(Section("source", source))
    unit = prepare(
        sections,
        prelude=prelude or prelude_for(header + source),
        folders=folders,
        math_mode=math_mode,
        language=language,
        fast_error=fast_error,
    )
    library = Library(unit)
    library.image(variant)
    return library


__all__ = ["Argument", "CompileError", "Library", "SimulatedKernel", "compile"]
