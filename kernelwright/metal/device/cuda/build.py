"""Compiles a program's launches ahead of time, in the memory and the registers that are best."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.metal.device.cuda.launch import CudaLaunch
from kernelwright.metal.device.cuda.nvrtc import Binary, compile_cuda, excess_shared_bytes
from kernelwright.metal.device.cuda.translate import Translation, headers, translate
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch

_REGISTERS, _THREADS = 65536, 2048
"""Of a core, on every architecture with tensor cores for floats but some of 1,536 threads; the same
specifications."""
_REGISTER_GRAIN = 8
"""Registers of a thread come in so many."""
_STATIC_BYTES = 49152
"""Of `__shared__` arrays, on every architecture."""


def compile_launches(
    program: BoundProgram,
    architecture: str,
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
) -> tuple[CudaLaunch, ...]:
    """Compile every launch ahead of time; NVRTC works outside Python's lock, so in parallel.

    Raises:
        CompileError: a kernel does not compile, or a threadgroup takes more than
            `threadgroup_bytes` and than CUDA has for arrays of a fixed place.
    """
    build = _Build(program, architecture, threadgroup_bytes, headers())
    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(build.launch, program.launches))


@dataclass(frozen=True)
class _Build:
    """Compiles the launches of a program."""

    program: BoundProgram
    architecture: str
    threadgroup_bytes: int
    headers: Mapping[str, str]

    def launch(self, launch: Launch) -> CudaLaunch:
        """Compile one launch; its arrays lie where CUDA has room for them."""
        try:
            return self._compile(launch)
        except CompileError as e:
            taken = excess_shared_bytes(e)
            if taken is None:
                raise
            if taken > self.threadgroup_bytes:
                raise _too_large(taken, self.threadgroup_bytes) from e
        try:
            return self._compile(launch, taken)
        except CompileError as e:
            taken = excess_shared_bytes(e)
            raise e if taken is None else _too_large(taken, self.threadgroup_bytes) from e

    def _compile(self, launch: Launch, shared_bytes: int = 0) -> CudaLaunch:
        """Compile a launch, and again with fewer registers where that lets more threads run."""
        found, binary = self._translated(launch, shared_bytes)
        more = _resident(binary.registers, found.threads) + 1
        # Shared memory and tensor cores answer late, which other simdgroups hide.
        if _multiplies_matrices(launch.kernel) and more * found.threads <= _THREADS:
            crowded, second = self._translated(launch, shared_bytes, more)
            if second.spilled_bytes <= binary.spilled_bytes:
                found, binary = crowded, second
        return CudaLaunch(launch.kernel, found, binary.cubin)

    def _translated(
        self, launch: Launch, shared_bytes: int, resident: int = 1
    ) -> tuple[Translation, Binary]:
        translation = translate(self.program, launch, shared_bytes=shared_bytes, resident=resident)
        binary = compile_cuda(translation.text, self.headers, architecture=self.architecture)
        return translation, binary


def _multiplies_matrices(kernel: Kernel) -> bool:
    return "simdgroup_multiply" in kernel.source + kernel.header


def _resident(registers: int, threads: int) -> int:
    """Return how many threadgroups find registers on a core."""
    return _REGISTERS // (-(-max(registers, 1) // _REGISTER_GRAIN) * _REGISTER_GRAIN * threads)


def _too_large(taken: int, allowed: int) -> CompileError:
    if taken > allowed:
        message = (
            f"Threadgroup memory size ({taken}) exceeds the maximum threadgroup memory allowed "
            f"({allowed})"
        )
    else:
        message = (
            f"threadgroup arrays of inner blocks, or between preprocessor directives, take {taken} "
            f"bytes, CUDA has {_STATIC_BYTES} for them; declare them at the top of the kernel."
        )
    return CompileError((Diagnostic(message=message),))
