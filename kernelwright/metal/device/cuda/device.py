"""The `cuda` device: translated kernels, launched through MLX's CUDA backend."""

import re
from functools import cached_property
from importlib.metadata import version

import mlx.core as mx

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo
from kernelwright.metal.device.cuda.build import compile_launches
from kernelwright.metal.device.cuda.nvrtc import is_available
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.device.threadgroup_memory import chip_with, too_much
from kernelwright.metal.kernel import BoundProgram

_MOST_KB = {"80": 163, "87": 163, "90": 227, "100": 227, "103": 227, "110": 227}
"""Shared memory of a block by compute capability; CUDA C++ Programming Guide, technical
specifications."""
_LEAST_KB = 99
"""Of all others since 8.0."""


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


def most_threadgroup_bytes(architecture: str) -> int:
    """Return what a threadgroup may take on an architecture, such as 232448 on `sm_90`."""
    found = re.match(r"sm_(\d+)", architecture)
    return _MOST_KB.get(found[1] if found else "", _LEAST_KB) * 1024
