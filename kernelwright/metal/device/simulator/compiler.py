"""Metal text to a shared object of this machine, kept by content."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.branches.watch import Site
from kernelwright.metal.device.simulator.build_command import (
    FINISHED_FLAGS,
    SECOND_TIMEOUT_S,
    SEEN_FLAGS,
    WATCHED_FLAGS,
    Watching,
    command_of,
)
from kernelwright.metal.device.simulator.conversion import (
    RANGES_FLAG,
    Converter,
    lacks_conversion,
    lacks_value,
    without_missing,
)
from kernelwright.metal.device.simulator.examine import examine
from kernelwright.metal.device.simulator.mirror import mirrored_header
from kernelwright.metal.device.simulator.reach import waiting_entries
from kernelwright.metal.device.simulator.record import Code, OwnVariable, ThreadgroupVariable
from kernelwright.metal.device.simulator.symbols import foreign_parts
from kernelwright.metal.device.simulator.toolchain import (
    COMPILE_TIMEOUT_S,
    COUNTING_FLAGS,
    DIAGNOSTIC_FLAGS,
    INSTRUMENTING_FLAGS,
    JOINED_FLAGS,
    METERED_FLAGS,
    OPTIMISING_FLAGS,
    SCALAR_FLAGS,
    SETTLED_FLAGS,
    TIMED_OUT,
    WHOLE_FLAGS,
    WIDENED_FLAGS,
    Variant,
    cache_path,
    digest_of,
    flags,
    link,
    precompiled_header,
    publish,
    run,
    target_flags,
    workspace,
)
from kernelwright.metal.device.simulator.unit import Prelude, Unit, mlx_folders
from kernelwright.metal.device.simulator.wide.widen import reasons_of
from kernelwright.metal.diagnostic import CompileError, Diagnostic, Record, Severity
from kernelwright.metal.msl.diagnose import EXCESSIVE_MEMORY
from kernelwright.metal.msl.signature import Entry, Parameter

LIBRARIES_PER_FOLDER = 64
"""Of 256 folders: at most about 300 MB of small kernels."""
_SYMBOL = re.compile(rb"kw_(?:entry|wide|vet):([^:\0]+):([^\0]+)\0")
WIDE_THREADS = 1 << 18
"""From here on a few launches repay the wide build, a sixth of a second of processor time."""
VETTED_THREADS = 1 << 20
"""From here on one sanitized launch repays the vetting build, 0.1 to 0.4 s of processor time."""
WIDE_WAITS, VETTED_WAITS = 1 << 23, 1 << 21
"""So often the threads of small launches may wait on fibers, a fifth of a second plainly and under
the sanitizer, before the others of the same kernel get such a build too."""
_LIGHTNESS = 4
"""So many threads that never wait are sanitized in the time of one that does, at least."""
_MATRIX_WEIGHT = 64
"""A thread that multiplies matrices works as long as so many others."""
MOST_WIDE_ENTRIES = 8
"""Every instance of a template is compiled alone there, with all that it calls."""
_UNSET = b"kw_unset\0"
_UNFOLDED = "checked for folded loads"
_CHECKED = "checked for foreign symbols"
_EXAMINED = {True: "examined for its language", False: "examined for looks at addresses too"}
"""Not in the names of what was built before these were checked."""
_HOST = '#include "kw/host.h"\n'
_HERE = Path(__file__).parent
_WIDENING, _WATCHING = _HERE / "wide", _HERE / "branches"
_CRASH = "frontend command failed"
_FAILURE = "the compiler crashed on this text; write it in a simpler way."
_TIMEOUT = f"the text did not compile within {COMPILE_TIMEOUT_S:g} s; write it in a simpler way."


@dataclass(frozen=True)
class Image:
    """A compiled library, ready to load."""

    path: Path
    variant: Variant
    entries: tuple[Entry, ...]
    waiting: frozenset[str]
    """Symbols of the entries whose threads may have to wait for others."""
    variables: tuple[ThreadgroupVariable, ...]
    multiplies: bool = False
    """The text multiplies simdgroup matrices."""
    warnings: tuple[Diagnostic, ...] = ()
    conditions: tuple[Site, ...] = ()
    """Of a watching build, those on loaded data."""
    unwidened: tuple[str, ...] = ()
    """Of a build for lanes in loops: each kernel that is not in it, and why."""
    unset: tuple[OwnVariable, ...] = ()
    """Of a build for the sanitizer in which results may hang on some of them: the variables that
    threads declare without a value."""

    def code(self, entry: Entry) -> Code:
        """Return what a launch runs of one entry."""
        return Code(
            self.path,
            entry.symbol,
            waits=entry.symbol in self.waiting,
            threadgroup_bytes=self._excessive_bytes,
        )

    @property
    def _excessive_bytes(self) -> int:
        """What threadgroup variables take where that is too much; 0 where it is not known.

        Of several kernels, only the launch tells whose they are.
        """
        found = (EXCESSIVE_MEMORY.match(w.message) for w in self.warnings)
        sizes = [int(match[1]) for match in found if match]
        return max(sizes, default=0) if len(self.entries) == 1 else 0

    def widen(self, code: Code) -> Code:
        """Return what a launch runs of an entry that this wide build has, as before otherwise."""
        has_entry = any(entry.symbol == code.symbol for entry in self.entries)
        return replace(code, wide=self.path) if has_entry else code

    def vet(self, code: Code) -> Code:
        """Return what a sanitized launch of an entry runs first, if this vetting build has it."""
        has_entry = any(entry.symbol == code.symbol for entry in self.entries)
        if not has_entry:
            return code
        return replace(code, vet=self.path, vet_reads_unset=bool(self.unset))

    def gains_from_vetting(
        self, entry: Entry, options: RunOptions, threads: int, waits: int
    ) -> bool:
        """Say whether a launch of this sanitizing build had better be vetted first.

        `waits` tells how often threads of the same kernel have waited under the sanitizer.
        """
        is_sanitizing = self.variant == "sanitize" and not options.order_seed
        weight = 1 if entry.symbol in self.waiting else _LIGHTNESS
        is_large = self._work(threads) >= VETTED_THREADS * weight
        is_worth_it = is_large or waits >= VETTED_WAITS
        return is_sanitizing and is_worth_it and len(self.entries) <= MOST_WIDE_ENTRIES

    def _work(self, threads: int) -> int:
        return threads * (_MATRIX_WEIGHT if self.multiplies else 1)

    def gains_from_width(self, entry: Entry, options: RunOptions, threads: int, waits: int) -> bool:
        """Say whether an entry of this plain build had better run 32 lanes at a time.

        `waits` tells how often threads of the same kernel have waited on fibers.
        """
        is_plain = self.variant == "plain" and not options.order_seed
        is_worth_it = self._work(threads) >= WIDE_THREADS or waits >= WIDE_WAITS
        is_worth_it &= len(self.entries) <= MOST_WIDE_ENTRIES
        return is_plain and is_worth_it and entry.symbol in self.waiting


_PATHS = ("path.py", "control_flow.py", "sound_arithmetic.py")
_INSTRUMENTING = ("copy_alignment.py", "instance.py", *_PATHS)
"""Steps of these builds, without which a cached one would be taken after they changed."""
_METERING = ("metered.py", *_PATHS)


def _digest(step: str) -> str:
    return digest_of(_HERE, step)


def compile_unit(
    unit: Unit, variant: Variant, constants: Mapping[int, int | float] | None = None
) -> Image:
    """Compile and link, or take what an earlier run made of the same text.

    Args:
        unit: What `prepare` returned.
        variant: The kind of build.
        constants: Values of function constants, by index.

    Raises:
        CompileError: clang refuses the text.
        DeviceError: the compiler failed.
    """
    rows = variant in ("plain", "metered")
    text = unit.text(constants or {}, rows=rows, padding=variant == "sanitize")
    header = precompiled_header(prelude_text(unit.prelude), variant, unit.math_mode)
    options = (*flags(variant, unit.math_mode), *DIAGNOSTIC_FLAGS, _CHECKED)
    if variant in ("wide", "vet"):
        options += (*WIDENED_FLAGS, *SETTLED_FLAGS, digest_of(_WIDENING, "*.py"))
        options += (_digest("sound_arithmetic.py"),)
    if variant in ("sanitize", "count"):
        options += (*FINISHED_FLAGS, digest_of(_HERE, "unmarked.py"))
    if variant == "count":
        options += (*COUNTING_FLAGS, digest_of(_HERE, "joined.py"), *map(_digest, _PATHS))
    if variant in ("sanitize", "vet"):
        options += (*INSTRUMENTING_FLAGS, *map(_digest, _INSTRUMENTING))
    if variant == "metered":
        options += (*METERED_FLAGS, *OPTIMISING_FLAGS, *map(_digest, _METERING))
    if variant == "branches":
        options += (*WATCHED_FLAGS, *SEEN_FLAGS, digest_of(_WATCHING, "*.py"))
        options += tuple(map(_digest, _PATHS))
    if variant == "plain":
        rules = (digest_of(_HERE, "*_rules.py"), digest_of(_HERE, "syntax_tree.py"))
        options += (_UNFOLDED, *SCALAR_FLAGS, _EXAMINED[unit.sees_addresses], *rules)
        options += (*OPTIMISING_FLAGS, *map(_digest, _PATHS))
    key = hashlib.sha256("\0".join((text, header.stem, *options)).encode()).hexdigest()[:32]
    output = cache_path() / "libraries" / key[:2] / f"{key}.so"
    record = output.with_suffix(".json")
    if output.is_file() and record.is_file():
        # What was used last is deleted last.
        output.touch()
    else:
        hides = variant in _COMPILED_TWICE and any(
            lacks_value(w.message) for w in compile_unit(unit, "plain", constants).warnings
        )
        _write(record, _build(unit, text, header, variant, output, hides_operands=hides))
        _prune(output.parent)
    built = _Built.model_validate_json(record.read_text())
    entries = tuple(_entry(symbol, unit.kernels) for symbol in built.entries)
    multiplies = "simdgroup_multiply" in text
    return Image(
        output,
        variant,
        entries,
        built.waiting,
        unit.variables,
        multiplies,
        built.warnings,
        built.conditions,
        built.unwidened,
        unit.unset_variables if built.reads_unset else (),
    )


def whole_object(unit: Unit) -> bytes:
    """Return an object whose kernels have all that they call in them, optimised once more whole.

    It is for comparing texts, not for running.

    Raises:
        CompileError: clang refuses the text.
        DeviceError: the compiler failed.
    """
    return _whole(unit, "-c")


def whole_listing(unit: Unit) -> str:
    """Return the listing of what `whole_object` compiles.

    Raises:
        CompileError: clang refuses the text.
        DeviceError: the compiler failed.
    """
    return _whole(unit, "-S", "-emit-llvm").decode()


def _whole(unit: Unit, *wanted: str) -> bytes:
    header = precompiled_header(prelude_text(unit.prelude), "plain", unit.math_mode)
    with workspace() as folder:
        source, listing, built = (folder / f"kernel.{end}" for end in ("cpp", "ll", "built"))
        source.write_text(unit.text({}, rows=False))
        command = ["clang", "-x", "c++", *flags("plain", unit.math_mode), *DIAGNOSTIC_FLAGS]
        command += ["-include-pch", str(header)]
        first = [*command, *WHOLE_FLAGS, "-S", "-emit-llvm", str(source), "-o", str(listing)]
        if "bfloat" in source.read_text():
            _converter(unit, command, source).convert(source)
        status, said = run(first)
        if status != 0 and lacks_conversion(said):
            _converter(unit, command, source).convert(source)
            status, said = run(first)
        if status == 0:
            last = ["clang", "-x", "ir", *target_flags(), *JOINED_FLAGS, *wanted]
            status, said = run([*last, str(listing), "-o", str(built)])
        if status != 0:
            raise _failure(status, said, unit.diagnostics(said))
        return built.read_bytes()


class _Built(Record):
    """What a build tells besides its library."""

    entries: tuple[str, ...]
    waiting: frozenset[str]
    warnings: tuple[Diagnostic, ...]
    conditions: tuple[Site, ...] = ()
    unwidened: tuple[str, ...] = ()
    reads_unset: bool = False


def _write(record: Path, built: _Built) -> None:
    with workspace() as folder:
        written = folder / "record.json"
        written.write_text(built.model_dump_json())
        publish(written, record)


def _build(
    unit: Unit, text: str, header: Path, variant: Variant, output: Path, *, hides_operands: bool
) -> _Built:
    """Compile and link into the cache."""
    with workspace() as folder:
        source, built = folder / "kernel.cpp", folder / "kernel.o"
        source.write_text(text)
        command = ["clang", "-x", "c++", *flags(variant, unit.math_mode), *DIAGNOSTIC_FLAGS]
        command += ["-include-pch", str(header)]
        watching = Watching(unit)
        compiled = watching.compile if variant == "branches" else command_of(variant)
        # Beside the compilation, which takes longer.
        pool = ThreadPoolExecutor(1)
        examined = pool.submit(examine, unit, command, source) if variant == "plain" else None
        pool.shutdown(wait=False)
        if variant in _COMPILED_TWICE and "bfloat" in text:
            _converter(unit, command, source).convert(source)
        if hides_operands:
            _converter(unit, command, source).hide_operands(source)
        status, said = compiled(command, source, built)
        found = unit.diagnostics(said)
        if (
            status != 0
            and lacks_conversion(said)
            and _converter(unit, command, source).convert(source)
        ):
            # What is left of the first errors has the candidate's own columns.
            left = unit.diagnostics(without_missing(said))
            status, said = compiled(command, source, built)
            found = unit.diagnostics(said) if status == 0 or not _has_errors(left) else left
        if status == 0 and lacks_value(said):
            _converter(unit, command, source).hide_operands(source)
            status, said = compiled(command, source, built)
        if status != 0:
            raise _failure(status, said, found)
        if foreign := foreign_parts(built, variant):
            raise CompileError(foreign)
        if variant == "plain":
            _refuse(unit, command, source, examined if source.read_text() == text else None)
        if variant == "count":
            publish(folder / "kernel.ll", output.with_suffix(".so.ll"))
        # Either leaves its widened listing there.
        listed = folder / "kernel.ll"
        unwidened = reasons_of(listed.read_text()) if variant in ("wide", "vet") else ()
        link([built], folder / "kernel.so")
        entries = _entry_symbols(folder / "kernel.so")
        waiting = waiting_entries(built, frozenset(entries))
        reads_unset = _UNSET in built.read_bytes()
        publish(folder / "kernel.so", output)
    return _Built(
        entries=entries,
        waiting=waiting,
        warnings=found,
        conditions=watching.conditions,
        unwidened=unwidened,
        reads_unset=reads_unset,
    )


def _refuse(
    unit: Unit,
    command: Sequence[str],
    source: Path,
    examined: Future[tuple[Diagnostic, ...]] | None,
) -> None:
    """Raise what is wrong with a text beyond what clang says; examine it unless that is done."""
    found = examined.result() if examined is not None else examine(unit, command, source)
    if found:
        raise CompileError(found)


def _converter(unit: Unit, command: Sequence[str], source: Path) -> Converter:
    check = (*command, "-fsyntax-only", RANGES_FLAG, str(source))
    return Converter(lambda: run(check, timeout_s=SECOND_TIMEOUT_S)[1], frozenset(unit.sources))


def _has_errors(found: Sequence[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in found)


_COMPILED_TWICE: frozenset[Variant] = frozenset(("wide", "vet", "branches", "metered"))
"""These say nothing of errors, which an earlier build of the same text has had."""


def _prune(folder: Path) -> None:
    """Delete a folder's oldest libraries beyond its share of the cache."""
    built = [(path.stat().st_mtime, path) for path in folder.glob("*.so")]
    for _, path in sorted(built)[:-LIBRARIES_PER_FOLDER]:
        for suffix in ("", ".ll"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)


def _failure(status: int, said: str, found: tuple[Diagnostic, ...]) -> CompileError | DeviceError:
    """Tell a text that clang refuses, crashes on or never ends with from a broken machine."""
    if status == TIMED_OUT:
        return CompileError((Diagnostic(message=_TIMEOUT),))
    errors = tuple(d for d in found if d.severity is not Severity.WARNING)
    if any(d.severity is Severity.ERROR for d in errors):
        return CompileError(errors)
    if _CRASH in said:
        return CompileError((Diagnostic(message=_FAILURE),))
    return DeviceError(f"the compiler failed: {said.strip()[:300]}")


def _entry_symbols(path: Path) -> tuple[str, ...]:
    """Find the exported entries in the string table of a shared object."""
    found = dict.fromkeys(_SYMBOL.findall(path.read_bytes()))
    return tuple(f"kw_entry:{kernel.decode()}:{host.decode()}" for kernel, host in found)


def _entry(symbol: str, kernels: Mapping[str, tuple[Parameter, ...]]) -> Entry:
    _, kernel, host = symbol.split(":", 2)
    return Entry(host, symbol, kernel, kernels.get(kernel, ()))


@cache
def prelude_text(prelude: Prelude) -> str:
    """Return what stands before a unit's text, which is compiled ahead of it."""
    text = '#include "kw/prelude.h"\n'
    if prelude == "metal":
        return _placed_where_called(text) + _HOST
    utils = mirrored_header("mlx/backend/metal/kernels/utils.h", mlx_folders())
    if utils is None:
        raise DeviceError("MLX's Metal headers are missing; reinstall the package mlx.")
    return _placed_where_called(f'{text}#include "{utils}"\n') + _HOST


def _placed_where_called(text: str) -> str:
    """Give what a counting build makes of library functions the lines that call them."""
    apply = "__attribute__((nodebug)), apply_to = hasType(functionType)"
    return f"""\
#ifdef KW_COUNT
#pragma clang attribute push ({apply})
#endif
{text}#ifdef KW_COUNT
#pragma clang attribute pop
#endif
"""
