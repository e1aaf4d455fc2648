"""Builds the simulator's runtime with the pip-installed clang, once for each text of it."""

import ctypes
import functools
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs
import ziglang

from kernelwright.errors import DeviceError

_SOURCES = Path(__file__).parent / "runtime"
_INCLUDE = Path(__file__).parent / "include"
_ZIG = Path(ziglang.__file__).parent


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Return the runtime, loaded so that compiled kernels find its symbols.

    Raises:
        DeviceError: the runtime does not build or load on this machine.
    """
    path = build_runtime(_target(), _cache_folder())
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise DeviceError(f"the simulator's runtime does not load: {e}; delete {path}.") from e


def build_runtime(target: str, folder: Path) -> Path:
    """Return the runtime for a target such as `x86_64-linux-gnu`, built unless it already is.

    Raises:
        DeviceError: the compiler fails.
    """
    suffix = ".dylib" if "macos" in target else ".so"
    path = folder / f"runtime-{target}-{_digest()}{suffix}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        sources = sorted([*_SOURCES.glob("*.cpp"), *_SOURCES.glob("*.S")])
        with ThreadPoolExecutor() as pool:
            objects = list(pool.map(lambda s: _compile(s, target, Path(scratch)), sources))
        linked = Path(scratch) / path.name
        _zig(*_linker(target), "-o", str(linked), *map(str, objects))
        # Renaming is atomic, so of two processes that build at once either may win.
        linked.replace(path)
    return path


def _compile(source: Path, target: str, scratch: Path) -> Path:
    compiled = scratch / f"{source.name}.o"
    language = (
        ("-x", "c++", "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
        if source.suffix == ".cpp"
        else ()
    )
    _zig(
        "clang",
        *language,
        *("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
        # Signal handlers look at the code that faulted; nothing here needs unwinding.
        *("-fno-asynchronous-unwind-tables", "-D_GNU_SOURCE", f"--target={target}", "-nostdinc"),
        *(f for folder in _system_headers(target) for f in ("-isystem", str(folder))),
        *("-I", str(_INCLUDE), "-c", str(source), "-o", str(compiled)),
    )
    return compiled


def _system_headers(target: str) -> list[Path]:
    """Return the headers of the C library that the compiler's wheel ships for a target."""
    libc = _ZIG / "lib" / "libc" / "include"
    if "macos" in target:
        return [_ZIG / "lib" / "include", libc / "any-darwin-any"]
    machine = "aarch64" if target.startswith("aarch64") else "x86"
    names = (f"{machine}-linux-gnu", "generic-glibc", f"{machine}-linux-any", "any-linux-any")
    return [_ZIG / "lib" / "include", *(libc / name for name in names)]


def _linker(target: str) -> list[str]:
    if "macos" not in target:
        return ["ld.lld", "-shared"]
    architecture = "arm64" if target.startswith("aarch64") else "x86_64"
    return [
        *(
            "ld64.lld",
            "-dylib",
            "-arch",
            architecture,
            "-platform_version",
            "macos",
            "13.0",
            "13.0",
        ),
        *("-undefined", "dynamic_lookup", str(_ZIG / "lib" / "libc" / "darwin" / "libSystem.tbd")),
    ]


def _zig(*arguments: str) -> None:
    try:
        done = subprocess.run(
            [str(_ZIG / "zig"), *arguments], capture_output=True, text=True, check=False
        )
    except OSError as e:
        raise DeviceError(f"the compiler cannot be run: {e}; reinstall ziglang.") from e
    if done.returncode != 0:
        raise DeviceError(f"the simulator's runtime does not build: {done.stderr.strip()}")


def _digest() -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted([*_SOURCES.iterdir(), _INCLUDE / "kw" / "abi.h"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _target() -> str:
    machine = platform.machine().lower()
    architecture = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine, machine)
    system = "macos" if sys.platform == "darwin" else "linux-gnu"
    if architecture not in ("x86_64", "aarch64") or sys.platform not in ("darwin", "linux"):
        raise DeviceError(
            f"the simulator runs on x86-64 and arm64 Linux and macOS, found {machine} "
            f"{sys.platform}."
        )
    return f"{architecture}-{system}"


def _cache_folder() -> Path:
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_cache_dir("kernelwright"))
