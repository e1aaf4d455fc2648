"""Builds the simulator's runtime with the pip-installed clang, once for each text of it."""

import ctypes
import functools
import hashlib
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.toolchain import (
    INCLUDE,
    cache_path,
    compiler_path,
    compiler_version,
    publish,
    run,
    workspace,
)

_SOURCES = Path(__file__).parent / "runtime"
_BUILD_FLAGS = (
    *("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
    # Nothing here unwinds; GNU's names are those of the registers of a signal's context.
    *("-fno-asynchronous-unwind-tables", "-D_GNU_SOURCE", "-nostdinc", "-I", str(INCLUDE)),
)
_CPP_FLAGS = ("-x", "c++", "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Return the runtime, loaded so that compiled kernels find its symbols.

    Raises:
        DeviceError: the runtime does not build or load on this machine.
    """
    path = build_runtime(host_target())
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise DeviceError(f"the simulator's runtime does not load: {e}; delete {path}.") from e


def build_runtime(target: str) -> Path:
    """Return the runtime for a target such as `x86_64-linux-gnu`, built unless it already is.

    Raises:
        DeviceError: the compiler fails.
    """
    suffix = ".dylib" if "macos" in target else ".so"
    output = cache_path() / f"runtime-{target}-{_digest()}{suffix}"
    if output.exists():
        return output
    with workspace() as folder:
        sources = sorted([*_SOURCES.glob("*.cpp"), *_SOURCES.glob("*.S")])
        with ThreadPoolExecutor() as pool:
            objects = list(pool.map(lambda source: _compile(source, target, folder), sources))
        linked = folder / output.name
        _run(*_linker(target), "-o", str(linked), *map(str, objects))
        publish(linked, output)
    return output


def host_target() -> str:
    """Return this machine's target.

    Raises:
        DeviceError: the simulator does not run here.
    """
    machine = platform.machine().lower()
    architecture = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine, machine)
    if architecture not in ("x86_64", "aarch64") or sys.platform not in ("darwin", "linux"):
        raise DeviceError(
            f"the simulator runs on x86-64 and arm64 Linux and macOS, found {machine} "
            f"{sys.platform}."
        )
    return f"{architecture}-{'apple-macos13' if sys.platform == 'darwin' else 'linux-gnu'}"


def _compile(source: Path, target: str, folder: Path) -> Path:
    compiled = folder / f"{source.name}.o"
    headers = (f for path in _system_headers(target) for f in ("-isystem", str(path)))
    language = _CPP_FLAGS if source.suffix == ".cpp" else ()
    _run(
        *("clang", *language, *_BUILD_FLAGS, f"--target={target}", *headers),
        *("-c", str(source), "-o", str(compiled)),
    )
    return compiled


def _system_headers(target: str) -> list[Path]:
    """Return the headers of the C library that the compiler's wheel ships for a target."""
    library = compiler_path().parent / "lib"
    libc = library / "libc" / "include"
    if "macos" in target:
        return [library / "include", libc / "any-darwin-any"]
    machine = "aarch64" if target.startswith("aarch64") else "x86"
    names = (f"{machine}-linux-gnu", "generic-glibc", f"{machine}-linux-any", "any-linux-any")
    return [library / "include", *(libc / name for name in names)]


def _linker(target: str) -> list[str]:
    if "macos" not in target:
        return ["ld.lld", "-shared"]
    architecture = "arm64" if target.startswith("aarch64") else "x86_64"
    system = compiler_path().parent / "lib" / "libc" / "darwin" / "libSystem.tbd"
    return [
        *("ld64.lld", "-dylib", "-arch", architecture, "-platform_version", "macos", "13.0"),
        *("13.0", "-undefined", "dynamic_lookup", str(system)),
    ]


def _run(*arguments: str) -> None:
    status, said = run(arguments)
    if status != 0:
        raise DeviceError(f"the simulator's runtime does not build: {said.strip()}")


def _digest() -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes() + compiler_version().encode())
    for path in sorted([*_SOURCES.iterdir(), INCLUDE / "kw" / "abi.h"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
