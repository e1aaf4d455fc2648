"""The `cuda` device: translated kernels, launched through MLX's CUDA backend."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import mlx.core as mx

from kernelwright.errors import DeviceError
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo
from kernelwright.metal.device.cuda.nvrtc import (
    compile_cuda,
    excess_shared_bytes,
    is_available,
)
from kernelwright.metal.device.cuda.translate import Translation, headers, translate
from kernelwright.metal.device.execution import MlxExecutable, launch_error
from kernelwright.metal.device.threadgroup_memory import chip_with, too_much
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch

_MOST_KB = {"80": 163, "87": 163, "90": 227, "100": 227, "103": 227, "110": 227}
"""Shared memory of a block by compute capability; CUDA C++ Programming Guide, technical
specifications."""
_LEAST_KB = 99
"""Of all others since 8.0."""
_STATIC_BYTES = 49152
"""Of `__shared__` arrays, on every architecture."""


def is_ready() -> bool:
    """Say whether MLX has its CUDA backend here, with a GPU and a compiler."""
    return bool(mx.cuda.is_available()) and is_available()


class CudaDevice:
    """An NVIDIA GPU; kernels keep Metal's limits, so what passes here fits a Mac too.

    That of threadgroup memory may be lifted; the device then has another `chip`.
    """

    def __init__(self, threadgroup_bytes: int = METAL_THREADGROUP_BYTES) -> None:
        """Open the GPU.

        Args:
            threadgroup_bytes: What a threadgroup may take.

        Raises:
            DeviceError: there is none, or it has less memory for a threadgroup.
        """
        if not mx.cuda.is_available():
            raise DeviceError(
                "this MLX has no CUDA backend; on a Linux machine with an NVIDIA GPU install it "
                "with: pip install 'mlx[cuda13]'."
            )
        self._gpu = mx.device_info(mx.Device(mx.gpu, 0))
        self._threadgroup_bytes = threadgroup_bytes
        if threadgroup_bytes > (most := most_threadgroup_bytes(self.architecture)):
            raise DeviceError(too_much(f"cuda ({self.architecture})", threadgroup_bytes, most))

    @cached_property
    def info(self) -> DeviceInfo:
        """Return the GPU's name and the versions that compile and run."""
        return DeviceInfo(
            name="cuda",
            chip=chip_with(str(self._gpu["device_name"]), self._threadgroup_bytes),
            runtime=f"mlx {version('mlx')}, {self.architecture}",
            measures_time=True,
            threadgroup_bytes=self._threadgroup_bytes,
        )

    @property
    def architecture(self) -> str:
        """NVRTC's name of the GPU's architecture, such as `sm_90`."""
        return str(self._gpu["architecture"])

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> MlxExecutable:
        """Translate and compile every kernel, several at once."""
        if sanitize:
            raise DeviceError("the cuda device has no sanitizer; run the simulator's first.")
        return MlxExecutable(
            program, compile_launches(program, self.architecture, self._threadgroup_bytes)
        )


@dataclass(frozen=True)
class CudaLaunch:
    """One launch, compiled for one architecture."""

    kernel: Kernel
    translation: Translation
    cubin: bytes

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Add the launch to MLX's graph."""
        outputs: list[mx.array] = mx.fast.precompiled_cuda_kernel(
            name=self.translation.symbol,
            compiled_source=self.cubin,
            inputs=list(arrays),
            output_shapes=[t.shape for t in types],
            output_dtypes=[mlx_dtype(t.dtype) for t in types],
            scalars=[],
            grid=self.translation.grid,
            threadgroup=(self.translation.threads, 1, 1),
            shared_memory=self.translation.shared_bytes,
            init_value=init_value,
            ensure_row_contiguous=True,
            stream=mx.gpu,
        )
        return outputs

    def error(self, error: Exception) -> Exception:
        """Compilation is over by now, so whatever failed is the launch."""
        return launch_error(self.kernel, error)


def most_threadgroup_bytes(architecture: str) -> int:
    """Return what a threadgroup may take on an architecture, such as 232448 on `sm_90`."""
    found = re.match(r"sm_(\d+)", architecture)
    return _MOST_KB.get(found[1] if found else "", _LEAST_KB) * 1024


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
    texts = headers()

    def compiled(launch: Launch, shared_bytes: int = 0) -> CudaLaunch:
        translation = translate(program, launch, shared_bytes=shared_bytes)
        try:
            cubin = compile_cuda(translation.text, texts, architecture=architecture)
        except CompileError as e:
            taken = excess_shared_bytes(e)
            if taken is None:
                raise
            if shared_bytes or taken > threadgroup_bytes:
                raise _too_large(taken, threadgroup_bytes) from e
            return compiled(launch, taken)
        return CudaLaunch(launch.kernel, translation, cubin)

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(compiled, program.launches))


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
