"""The pip-installed clang: where it is, its flags for each build, its precompiled headers."""

import hashlib
import math
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path

from kernelwright.errors import DeviceError
from kernelwright.extra import missing_extra
from kernelwright.file_write import move_file
from kernelwright.metal.device.simulator.deferred_checks import without_deferred_checks
from kernelwright.metal.kernel import MathMode

Variant = Literal["plain", "sanitize", "count", "wide", "vet", "branches", "metered"]
INCLUDE = Path(__file__).parent / "include"
COMPILE_TIMEOUT_S = 60.0
"""Of the processor's time, on the wall where a system limits no other process's."""
_PATIENCE = 20
_UNCHECKED = "without deferred checks"
"""Not in the names of headers that were built before these were taken from them."""
TIMED_OUT = 124
"""What `run` returns for a tool that did not end, as the shell's `timeout` does."""

# LLVM 22 takes `a[k & 3]` in a loop whose number of rounds is known for a run of elements: it drops
# the check that the index never wraps around (https://github.com/llvm/llvm-project/pull/225086). A
# threshold of no such checks does not keep it from `(k + 1) & 31`. So it makes vectors of marked
# loops alone: those over threads and lanes, which have an unknown number of rounds.
_SOUND_LOOPS = (
    "-fno-vectorize",
    *("-mllvm", "-vectorize-scev-check-threshold=0"),
    *("-mllvm", "-runtime-check-per-loop-load-elim=0"),
    *("-mllvm", "-loop-load-elimination-scev-check-threshold=0"),
)
_SCHEDULING = ("-mllvm", "-dag-maps-huge-region=200")
"""So many accesses in a block are ordered among each other exactly; by LLVM's own thousand, what a
text that writes out 4000 stores takes grows with their square (2.8 s, where it takes 1.0 so)."""
SCALAR_FLAGS = (
    *("-fno-vectorize", "-mllvm", "-force-vector-width=1", "-mllvm", "-force-vector-interleave=1"),
)
"""What keeps clang from making vectors of any loop, marked ones included."""
LANGUAGE_FLAGS = (
    *("-std=c++23", "-Xclang", "-fsycl-is-device", "-fdeclspec"),
    # A text is not to put files of the machine into its object.
    "-fno-gnu-inline-asm",
    # Metal has no modules, for whose sake the names of all builtins would be read for each text.
    "-fno-cxx-modules",
    # A null pointer is read and written as any other: the fault of doing so is to be seen.
    *("-fno-strict-aliasing", "-fno-delete-null-pointer-checks", "-fsigned-char", "-fno-char8_t"),
    # Since version 16, clang packs no member of a class, and vectors are classes here.
    "-fclang-abi-compat=15",
    # A float beyond an integer's range becomes its nearest value and a NaN 0, as on Apple's GPUs;
    # to C++ it means nothing, and each build would have a value of its own.
    "-fno-strict-float-cast-overflow",
    # A loop that never ends must not, as on a GPU; C++ would let it be left out.
    "-fno-finite-loops",
    *("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-unwind-tables"),
    *("-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fno-math-errno"),
    # What each function refers to can then be read from the object: see reach.py.
    "-ffunction-sections",
    *_SOUND_LOOPS,
    *("-ffp-contract=on", "-fPIC", "-Xclang", "-ffloat16-excess-precision=none"),
    *("-nostdinc", "-isystem", str(INCLUDE)),
)
DIAGNOSTIC_FLAGS = (
    *("-Wno-unknown-attributes", "-Wno-gcc-compat", "-Wno-unused-value", "-Wno-psabi"),
    *("-Wno-parentheses", "-Wno-duplicate-decl-specifier", "-Wno-unknown-pragmas"),
    "-Wno-pragma-once-outside-header",
    *("-Werror=vla-cxx-extension", "-Wno-deprecated-volatile", "-Wno-ambiguous-reversed-operator"),
    # The way behind such a function, and what lies where a variable was, are anything.
    *("-Werror=return-type", "-Werror=return-stack-address"),
    # A variable of the program whose value is computed before the kernel runs.
    *("-Wno-pass-failed", "-Werror=global-constructors"),
    *("-fno-color-diagnostics", "-fno-caret-diagnostics", "-ferror-limit=20"),
    *("-fno-crash-diagnostics", "-fno-elide-type"),
)
_WATCH = (
    *("-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0"),
    # A read that a write to the same place follows would be left out, though it may be the first.
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
)
PLACED_FLAGS = (
    *("-mllvm", "-simplifycfg-sink-common=false", "-mllvm", "-simplifycfg-hoist-common=false"),
    *("-mllvm", "-enable-tail-merge=false"),
)
"""What two branches do alike stays apart: one access of both has the line of neither."""
_JUDGE = (
    *("-O1", "-DKW_SANITIZE", *_WATCH),
    # Not shift: it also judges the value that is shifted, which Metal lets overflow. array-bounds
    # sees an index where the array's type does, local-bounds an access through a pointer or
    # reference to a thread's own array, which no memory of the simulator's surrounds.
    "-fsanitize=alignment,shift-exponent,integer-divide-by-zero,array-bounds,local-bounds",
    # clang refuses all ends without a result but those behind a `switch` over a whole enum.
    "-fsanitize=return",
    # The last member of a struct has the elements that it is declared with, as all others.
    *("-fstrict-flex-arrays=3", "-fsanitize-recover=all", "-fno-sanitize-trap=local-bounds"),
    # A signed overflow means nothing in C++: one compiler wraps, another takes `a - b > 0` for
    # `a > b`. Other builds do as clang likes; what hangs on it differs between them.
    "-fwrapv",
)
INSTRUMENTING_FLAGS = (
    *("-O1", *_WATCH, "-fsanitize=local-bounds", "-fsanitize-recover=all"),
    *("-fno-sanitize-trap=local-bounds", "-fPIC", "-ffunction-sections", "-ffp-contract=on"),
    *("-Wno-pass-failed", *_SOUND_LOOPS, *PLACED_FLAGS),
)
"""Of the part of a sanitizing or vetting build that starts from a listing."""
OPTIMISING_FLAGS = (
    *("-O2", "-fno-slp-vectorize", "-fPIC", "-ffunction-sections", "-ffp-contract=on"),
    *("-Wno-pass-failed", *_SOUND_LOOPS),
)
"""Of the part of a plain build that starts from a listing."""
_APART = (
    # One operation of a thread must stay one, or lanes cannot be told apart.
    *("-fno-vectorize", "-fno-slp-vectorize"),
    # Nor may lanes that took a branch keep copies of what follows for themselves: compilers
    # for GPUs do without, for lanes would not meet again.
    *("-mllvm", "-jump-threading-threshold=0", "-mllvm", "-unroll-runtime=false"),
)
_COVERAGE = "-fsanitize-coverage=trace-pc-guard,no-prune"
COUNTING_FLAGS = (*OPTIMISING_FLAGS, *_WATCH, _COVERAGE, *_APART)
"""Of the part of a counting build that starts from a listing."""
_ROLLED = ("-mllvm", "-unroll-runtime=false", "-mllvm", "-unroll-allow-partial=false")
WHOLE_FLAGS = ("-mllvm", "-inline-threshold=20000", *_ROLLED)
WATCHED_WHOLE_FLAGS = ("-mllvm", "-inline-threshold=200000", *_ROLLED)
"""Of a build that watches: what stands apart is given its arguments, any of which may be data."""
_NO_IDIOMS = ("-mllvm", "-disable-loop-idiom-all")
_ONES, _ZEROS = ("-ftrivial-auto-var-init=pattern",), ("-ftrivial-auto-var-init=zero",)
"""What a variable holds that nobody has set: NaN where outputs are judged, zero under the
sanitizer, so that no program is right by what it finds there."""
VARIANT_FLAGS: dict[Variant, tuple[str, ...]] = {
    # Vectors are written out or come from loops over threads; looking for others takes a tenth of
    # the compilation (92 to 82 ms for a softmax) and changes no benchmark by more than 3 %.
    "plain": ("-O2", "-fno-slp-vectorize", *_ONES),
    "sanitize": (
        *(*_JUDGE, *_ZEROS, "-gline-tables-only"),
        # What a function calls last must return to it, or a report has the line of its caller.
        "-fno-optimize-sibling-calls",
        # Code after a division by zero is unreachable; it must not run into its neighbour.
        *("-mllvm", "-trap-unreachable", *PLACED_FLAGS),
    ),
    "count": (*("-O2", "-DKW_COUNT", *_WATCH, _COVERAGE, "-gline-tables-only", *_APART),),
    # Only the first half: its listing is cut at the waits (see wide/), then compiled. Everything
    # that waits must stand in the kernel itself, and loops are worth unrolling once they are cut.
    # A loop that copies stays one: a call never becomes part of a vector.
    "wide": (
        *("-O2", "-DKW_WIDE", "-fno-vectorize", "-fno-slp-vectorize", *WHOLE_FLAGS, *_ONES),
        *_NO_IDIOMS,
    ),
    # Exactly the accesses and checks of the sanitizing build; see wide/marked.py for the rest.
    "vet": (*_JUDGE, "-DKW_WIDE", *_ZEROS),
    # The plain build's listing, in which each back edge is then counted; see metered.py.
    "metered": ("-O2", "-fno-slp-vectorize", *_ONES),
    # Only the first half: its listing is watched at each condition (see branches/), then compiled.
    # All that a kernel calls stands in it, and a condition stays one of the text's.
    "branches": (
        *("-O1", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops"),
        *("-gline-tables-only", *WATCHED_WHOLE_FLAGS, *_ONES),
    ),
}
WIDENED_FLAGS = (
    *("-O2", "-fno-slp-vectorize", "-fPIC", "-ffunction-sections", "-ffp-contract=on"),
    *("-Wno-pass-failed", *_SOUND_LOOPS),
    # That lanes do not depend on each other says nothing of one lane's accesses, of which a group
    # of interleaved ones would move a load before the store to its place.
    *("-mllvm", "-enable-interleaved-mem-accesses=false"),
    # As many lanes in a vector as its narrowest values allow: an index of 64 bits halves no floats.
    *("-mllvm", "-vectorizer-maximize-bandwidth"),
    # A condition that all lanes share is decided before their loop, not by masks within it.
    *("-mllvm", "-enable-nontrivial-unswitch", "-mllvm", "-unswitch-threshold=300"),
)
"""Of the second half of a wide build."""
NARROW_FLAGS = (
    *(f for f in WIDENED_FLAGS if f != "-fno-slp-vectorize"),
    *("-mllvm", "-slp-vectorize-hor-store=1"),
)
"""Of that of a kernel some of whose lanes make vectors of their own, sums among them."""
JOINED_FLAGS = (
    *("-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fPIC", "-ffunction-sections"),
    *("-ffp-contract=on", "-Wno-pass-failed", *_SOUND_LOOPS, *WHOLE_FLAGS),
    # Stores of two branches that become one are to a pointer of which the buffer is not known.
    *("-mllvm", "-simplifycfg-sink-common=false"),
)
"""Of the half between in a vetting build, which makes one function of each kernel."""
SETTLED_FLAGS = (*JOINED_FLAGS, *_NO_IDIOMS)
"""Of the half between in a wide build, after which arrays whose indices turned out to be constants
are values."""

METERED_FLAGS = (
    *("-O1", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fPIC"),
    *("-ffunction-sections", "-ffp-contract=on", "-Wno-pass-failed"),
)
"""Of the second half of a metered build."""


_RELAXED = ("-ffast-math", "-fhonor-infinities", "-fhonor-nans")
MATH_FLAGS: dict[MathMode, tuple[str, ...]] = {
    "safe": (),
    "relaxed": _RELAXED,
    # Metal leaves infinities undefined in this mode too, and GPUs still compute them: clang's
    # own reading, that none occurs, would break kernels that work.
    "fast": (*_RELAXED, "-DKW_FAST_MATH"),
}


def cache_path() -> Path:
    """Return the folder of everything that can be built again, `KERNELWRIGHT_CACHE` if set."""
    chosen = os.environ.get("KERNELWRIGHT_CACHE")
    root = Path(chosen) if chosen else user_cache_path("kernelwright")
    return root / "simulator"


@cache
def compiler_version() -> str:
    """Return what compiles, such as `ziglang 0.17.0`.

    Raises:
        DeviceError: the package is missing.
    """
    try:
        return f"ziglang {version('ziglang')}"
    except PackageNotFoundError as e:
        raise _missing() from e


def _missing() -> DeviceError:
    told = missing_extra(ModuleNotFoundError(name="ziglang"))
    return DeviceError(f"the simulator compiles Metal with ziglang: {told}")


@cache
def compiler_path() -> Path:
    """Return the executable of `ziglang`.

    Raises:
        DeviceError: the package is missing or incomplete.
    """
    spec = find_spec("ziglang")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / ("zig.exe" if sys.platform == "win32" else "zig")
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise _missing()


@cache
def target_flags(machine: str = platform.machine(), system: str = sys.platform) -> tuple[str, ...]:
    """Return the target triple and processor of a machine, this one by default.

    Raises:
        DeviceError: the simulator does not know the processor.
    """
    architectures = {
        "x86_64": "x86_64",
        "amd64": "x86_64",
        "arm64": "aarch64",
        "aarch64": "aarch64",
    }
    architecture = architectures.get(machine.lower())
    if architecture is None:
        raise DeviceError(f"the simulator runs on x86-64 and arm64 processors, found {machine!r}.")
    # Half precision conversions (F16C) come with v3; every arm64 has its own.
    processor = "-march=x86-64-v3" if architecture == "x86_64" else "-march=armv8.2-a+fp16"
    options = (processor, *_SCHEDULING)
    if system == "darwin":
        return (f"--target={architecture}-apple-macos13", *options)
    # A big frame touches each of its pages, so that it cannot step over the end of its stack into
    # a neighbour; macOS does so by itself.
    triple = f"--target={architecture}-unknown-linux-gnu"
    return (triple, *options, "-fstack-clash-protection")


def flags(variant: Variant, math_mode: MathMode = "safe") -> tuple[str, ...]:
    """Return every flag that decides what an object is."""
    return (*LANGUAGE_FLAGS, *target_flags(), *VARIANT_FLAGS[variant], *MATH_FLAGS[math_mode])


def run(arguments: Sequence[str], *, timeout_s: float = COMPILE_TIMEOUT_S) -> tuple[int, str]:
    """Run a tool of `ziglang` and return its exit status and what it said.

    Raises:
        DeviceError: it could not run, or was killed.
    """
    status, _, said = _run(arguments, timeout_s)
    return status, said


def output_of(arguments: Sequence[str]) -> tuple[str, str]:
    """Run a tool of `ziglang` and return what it printed, empty where it failed, and said.

    Raises:
        DeviceError: it could not run, or was killed.
    """
    status, printed, said = _run(arguments, COMPILE_TIMEOUT_S)
    return (printed if status == 0 else ""), said


def _run(arguments: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
    command = [str(compiler_path()), *arguments]
    start_s, pipe = time.monotonic(), subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, errors="replace")
    except OSError as e:
        raise DeviceError(f"the compiler {command[0]} cannot run: {e}.") from e
    with process:
        try:
            patience_s = _limit_processor_time(process.pid, timeout_s)
            printed, said = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired as e:
            process.kill()
            if patience_s == timeout_s:
                return TIMED_OUT, "", ""
            raise DeviceError(
                f"the compiler got less than {timeout_s:g} s of processor time in {patience_s:g} s;"
                f" try again when the machine is less busy."
            ) from e
        except BaseException:
            process.kill()
            raise
    # The system kills what has spent its processor time.
    if process.returncode == -signal.SIGKILL and time.monotonic() - start_s >= timeout_s:
        return TIMED_OUT, "", ""
    if process.returncode < 0:
        raise DeviceError(f"the compiler {command[0]} died of signal {-process.returncode}.")
    return process.returncode, printed, said


def _limit_processor_time(process: int, seconds: float) -> float:
    """Let a process have so much, and return how long to wait for it.

    A text then has the verdict on a busy machine that it has on an idle one. macOS limits no other
    process, so that the clock on the wall decides there.
    """
    if sys.platform != "linux":
        return seconds
    with suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_CPU, (math.ceil(seconds),) * 2)
    return seconds * _PATIENCE


def link(
    objects: Sequence[Path],
    output: Path,
    *,
    machine: str = platform.machine(),
    system: str = sys.platform,
) -> None:
    """Make a shared library whose undefined symbols the runtime or the system provides.

    Raises:
        DeviceError: the linker failed.
    """
    # Symbolic: a kernel calls its own functions directly.
    elf = (
        "ld.lld",
        "-shared",
        "-Bsymbolic",
        "-z",
        "norelro",
        "--hash-style=gnu",
        "--build-id=none",
        # No text adds to what is linked.
        "--no-dependent-libraries",
    )
    tool = _macos_linker(machine) if system == "darwin" else (*elf, "-o")
    # Only the Mach-O linker wants the name joined to its flag.
    named = (f"{tool[-1]}{output}",) if system == "darwin" else (tool[-1], str(output))
    status, said = run([*tool[:-1], *map(str, objects), *named])
    if status != 0:
        raise DeviceError(f"the linker failed: {_first_line(said)}")


def _macos_linker(machine: str) -> tuple[str, ...]:
    """Return zig's own linker for Mach-O, since its lld has none."""
    architecture = "aarch64" if machine in ("arm64", "aarch64") else "x86_64"
    caches = ("--cache-dir", str(cache_path()), "--global-cache-dir", str(cache_path()))
    return (
        *("build-lib", "-dynamic", "-target", f"{architecture}-macos.13.0", "--name", "kernel"),
        *("-fallow-shlib-undefined", "-fno-compiler-rt", "-fno-ubsan-rt", *caches, "-femit-bin="),
    )


def _first_line(said: str) -> str:
    """Return the first error of a tool, or the first thing that it said."""
    lines = [line for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), (lines or ["it gave no reason."])[0])


@cache
def digest_of(folder: Path, pattern: str = "*") -> str:
    """Return a digest of the files below a folder, which decide what a build means."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob(pattern) if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def include_digest() -> str:
    """Return a digest of the standard library."""
    return digest_of(INCLUDE)


def precompiled_header(text: str, variant: Variant, math_mode: MathMode = "safe") -> Path:
    """Return the precompiled form of a header's text, built at its first use.

    Raises:
        DeviceError: the standard library does not compile, or the cache cannot be written.
    """
    shared = precompiled_path(text, variant, math_mode)
    own = cache_path() / "libraries" / shared.name
    for found in (shared, own):
        if found.is_file():
            return found
    options = (*flags(variant, math_mode), *DIAGNOSTIC_FLAGS)
    with workspace() as folder:
        (folder / "prelude.h").write_text(text)
        output = _place_of(folder / "prelude.h", shared, own)
        # clang looks for the header's text again whenever it loads the precompiled form.
        source, built = output.with_suffix(".h"), folder / "prelude.pch"
        status, said = run(
            [
                *("clang", "-x", "c++-header", *options, "-fpch-instantiate-templates"),
                *("-Xclang", "-fno-pch-timestamp"),
                *(str(source), "-o", str(built)),
            ]
        )
        if status != 0:
            raise DeviceError(f"the simulator's headers do not compile: {_first_line(said)}")
        built.write_bytes(without_deferred_checks(built.read_bytes(), compiler_version()))
        publish(built, output)
    return output


def _place_of(header: Path, shared: Path, own: Path) -> Path:
    """Put a header's text beside its precompiled form; a worker only reads the shared folder."""
    try:
        publish(header, shared.with_suffix(".h"))
    except DeviceError:
        publish(header, own.with_suffix(".h"))
        return own
    return shared


def precompiled_path(text: str, variant: Variant, math_mode: MathMode = "safe") -> Path:
    """Return where the precompiled form of a header's text is, once it has been built."""
    options = (*flags(variant, math_mode), *DIAGNOSTIC_FLAGS, _UNCHECKED)
    key = _digest(text, include_digest(), compiler_version(), *options)
    return cache_path() / "headers" / f"{key}.pch"


@contextmanager
def workspace() -> Iterator[Path]:
    """Open a new folder in the cache, so that what is built there can be moved into place.

    Raises:
        DeviceError: the cache cannot be written.
    """
    folder = cache_path() / "work"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=folder)
    except OSError as e:
        raise DeviceError(f"the cache {folder} cannot be written: {e.strerror}.") from e
    with temporary as name:
        yield Path(name)


def publish(built: Path, output: Path) -> None:
    """Move a finished file to its place in the cache in one step.

    Raises:
        DeviceError: the cache cannot be written.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        move_file(built, output)
    except OSError as e:
        raise DeviceError(f"the cache {output.parent} cannot be written: {e.strerror}.") from e


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
