"""NVIDIA's run-time compiler through ctypes: CUDA text to a binary for one chip."""

import ctypes
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.diagnostic import CompileError, Diagnostic, Severity

_LOG_LINE = re.compile(
    r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?P<severity>error|warning)[^:]*: (?P<message>.+)$"
)
_ASSEMBLER_LINE = re.compile(r"^ptxas (?:error|fatal)\s*: (?P<message>.+)$")
_TOO_MUCH_SHARED = re.compile(r"uses too much shared data \((0x[\da-f]+) bytes, 0x[\da-f]+ max\)")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")
_HOW = "install MLX's CUDA backend with: pip install 'mlx[cuda13]'"


def is_available() -> bool:
    """Say whether the compiler and CUDA's headers are on this machine."""
    return _library_path() is not None and _include_folder() is not None


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled text, and what its kernel takes of a core."""

    cubin: bytes
    registers: int
    """Of a thread."""
    spilled_bytes: int
    """Of a thread, which lie in memory for want of registers."""


def compile_cuda(text: str, headers: Mapping[str, str], *, architecture: str) -> Binary:
    """Compile a text with one kernel for `architecture`, such as `sm_90`.

    Raises:
        CompileError: the text does not compile; lines are those of its `#line` directives.
        DeviceError: the compiler is missing or broke.
    """
    nvrtc, include = _load(), _include_folder()
    if include is None:
        raise DeviceError(f"CUDA's headers (cuda_fp16.h) were not found; {_HOW}.")
    program = ctypes.c_void_p()
    names = [name.encode() for name in headers]
    sources = [source.encode() for source in headers.values()]
    strings = ctypes.c_char_p * len(names)
    _check(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program),
            text.encode(),
            b"kernel.cu",
            len(names),
            strings(*sources),
            strings(*names),
        ),
    )
    try:
        options = [
            f"--gpu-architecture={architecture}",
            "--std=c++17",
            f"--include-path={include}",
            f"--include-path={include / 'cccl'}",
            "--ptxas-options=-v",
        ]
        flags = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), flags)
        raw = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        # What the assembler says is joined to the rest by a NUL.
        log = raw.decode(errors="replace").replace("\0", "\n").strip()
        if status != 0:
            raise CompileError(diagnostics(log))
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return Binary(cubin, _number(_REGISTERS, log), _number(_SPILLED, log))
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def diagnostics(log: str) -> tuple[Diagnostic, ...]:
    """Read the compiler's log; a place in generated text is reported without a line."""
    found = tuple(_diagnostics(log))
    if found:
        return found
    return (Diagnostic(message=log.strip()[:2000] or "the CUDA compiler failed without a message"),)


def excess_shared_bytes(error: CompileError) -> int | None:
    """Return what `__shared__` arrays take together, where the assembler refuses it for that."""
    for diagnostic in error.diagnostics:
        if found := _TOO_MUCH_SHARED.search(diagnostic.message):
            return int(found[1], 16)
    return None


def _number(pattern: re.Pattern[str], log: str) -> int:
    """Return what the assembler says of the one kernel; 0 where it says nothing."""
    found = pattern.search(log)
    return int(found[1]) if found else 0


def _diagnostics(log: str) -> Iterator[Diagnostic]:
    for line in log.splitlines():
        if refused := _ASSEMBLER_LINE.match(line):
            yield Diagnostic(message=refused["message"])
        match = _LOG_LINE.match(line)
        if match is None:
            continue
        own = match["file"] in ("source", "header")
        yield Diagnostic(
            message=match["message"],
            file=match["file"] if own else "source",
            line=int(match["line"]) if own else 0,
            severity=Severity(match["severity"]),
        )


def _read(size_of: Callable[..., int], copy: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    copy(program, buffer)
    return buffer.raw


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        reason = nvrtc.nvrtcGetErrorString(status).decode()
        raise DeviceError(f"NVIDIA's run-time compiler failed ({reason}); {_HOW}.")


@cache
def _load() -> ctypes.CDLL:
    path = _library_path()
    if path is None:
        raise DeviceError(f"NVIDIA's run-time compiler (libnvrtc) was not found; {_HOW}.")
    try:
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(path))
    except OSError as e:
        raise DeviceError(f"{path} cannot be loaded ({e}); {_HOW}.") from e


@cache
def _library_path() -> Path | None:
    return next((p for root in _roots() for p in _sorted(root, "lib*/libnvrtc.so*")), None)


@cache
def _include_folder() -> Path | None:
    return next((p.parent for root in _roots() for p in _sorted(root, "include/cuda_fp16.h")), None)


def _sorted(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern)) if root.is_dir() else []


def _roots() -> Iterator[Path]:
    """Folders that may hold a CUDA toolkit: the environment's, the wheels', the system's."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value)
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(p for p in Path(location).iterdir() if p.is_dir())
    yield Path("/usr/local/cuda")
