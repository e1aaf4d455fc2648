"""Builds the simulator's runtime with the pip-installed clang, once for each text of it."""

import ctypes
import functools
import hashlib
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.layout import layout_text
from kernelwright.metal.device.simulator.toolchain import (
    INCLUDE,
    LANGUAGE_FLAGS,
    VARIANT_FLAGS,
    cache_path,
    compiler_path,
    compiler_version,
    include_digest,
    link,
    publish,
    run,
    target_flags,
    workspace,
)

_SOURCES = Path(__file__).parent / "runtime"
_COMBINES = _SOURCES / "prebuilt.metal"
_BUILD_FLAGS = (
    *("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
    # Nothing here unwinds; GNU's names are those of the registers of a signal's context.
    *("-fno-asynchronous-unwind-tables", "-D_GNU_SOURCE", "-nostdinc", "-I", str(INCLUDE)),
    *("-I", str(_SOURCES), "-Wno-invalid-offsetof"),
)
_CPP_FLAGS = ("-x", "c++", "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Return the runtime, loaded so that compiled kernels find its symbols.

    Raises:
        DeviceError: the runtime does not build or load on this machine.
    """
    path = build_runtime()
    try:
        runtime = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise DeviceError(f"the simulator's runtime does not load: {e}; delete {path}.") from e
    # The C library's own pthread_atfork is no symbol of a shared library.
    os.register_at_fork(
        before=runtime.kw_before_fork,
        after_in_parent=runtime.kw_after_fork_in_parent,
        after_in_child=runtime.kw_after_fork_in_child,
    )
    return runtime


def build_runtime(machine: str = platform.machine(), system: str = sys.platform) -> Path:
    """Return the runtime for a machine, this one by default, built unless it already is.

    Raises:
        DeviceError: the simulator does not run there, or the compiler fails.
    """
    output = runtime_path(machine, system)
    if output.exists():
        return output
    headers = (f for p in _headers(machine, system) for f in ("-isystem", str(p)))
    options = (*target_flags(machine, system), *headers)
    with workspace() as folder:
        layout = folder / "layout.cpp"
        layout.write_text(layout_text())
        sources = [*sorted([*_SOURCES.glob("*.cpp"), *_SOURCES.glob("*.S")]), layout]
        with ThreadPoolExecutor() as pool:
            combines = pool.map(
                lambda flags: _compile_combines(flags, target_flags(machine, system), folder),
                ((), ("-DKW_WIDE",)),
            )
            objects = list(pool.map(lambda source: _compile(source, options, folder), sources))
            objects += combines
        link(objects, folder / output.name, machine=machine, system=system)
        publish(folder / output.name, output)
    return output


def runtime_path(machine: str = platform.machine(), system: str = sys.platform) -> Path:
    """Return where the runtime for a machine is, once it has been built.

    Raises:
        DeviceError: the simulator does not run there.
    """
    if system not in ("darwin", "linux"):
        raise DeviceError(f"the simulator runs on Linux and macOS, found {system}.")
    digest = _digest(*target_flags(machine, system))
    return cache_path() / f"runtime-{digest}{'.dylib' if system == 'darwin' else '.so'}"


def _compile(source: Path, options: tuple[str, ...], folder: Path) -> Path:
    compiled = folder / f"{source.name}.o"
    language = _CPP_FLAGS if source.suffix == ".cpp" else ()
    command = ["clang", *language, *_BUILD_FLAGS, *options, "-c", str(source), "-o", str(compiled)]
    _check(run(command))
    return compiled


def _compile_combines(slots: tuple[str, ...], target: tuple[str, ...], folder: Path) -> Path:
    """Compile the combine functions as a kernel's text is, for slots apart or side by side."""
    compiled = folder / f"{_COMBINES.name}{''.join(slots)}.o"
    options = (*LANGUAGE_FLAGS, *target, *VARIANT_FLAGS["plain"], *slots)
    _check(run(["clang", "-x", "c++", *options, "-c", str(_COMBINES), "-o", str(compiled)]))
    return compiled


def _check(result: tuple[int, str]) -> None:
    status, said = result
    if status != 0:
        raise DeviceError(f"the simulator's runtime does not build: {said.strip()}")


def _headers(machine: str, system: str) -> list[Path]:
    """Return the headers of the C library that the compiler's package ships."""
    library = compiler_path().parent / "lib"
    libc = library / "libc" / "include"
    if system == "darwin":
        return [library / "include", libc / "any-darwin-any"]
    name = "aarch64" if machine.lower() in ("arm64", "aarch64") else "x86"
    folders = (f"{name}-linux-gnu", "generic-glibc", f"{name}-linux-any", "any-linux-any")
    return [library / "include", *(libc / folder for folder in folders)]


def _digest(*options: str) -> str:
    text = "\0".join((compiler_version(), *options, *_BUILD_FLAGS, *_CPP_FLAGS))
    digest = hashlib.sha256(text.encode() + layout_text().encode())
    digest.update(include_digest().encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
