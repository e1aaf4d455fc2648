"""The `cuda` device: translated kernels, launched through MLX's CUDA backend."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import mlx.core as mx

from kernelwright.errors import DeviceError
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.cuda.nvrtc import compile_cuda, is_available
from kernelwright.metal.device.cuda.translate import Translation, headers, translate
from kernelwright.metal.device.execution import MlxExecutable, launch_error
from kernelwright.metal.kernel import BoundProgram, Kernel, Launch


def is_ready() -> bool:
    """Say whether MLX has its CUDA backend here, with a GPU and a compiler."""
    return bool(mx.cuda.is_available()) and is_available()


class CudaDevice:
    """An NVIDIA GPU; kernels keep Metal's limits, so what passes here fits a Mac too."""

    def __init__(self) -> None:
        if not mx.cuda.is_available():
            raise DeviceError(
                "this MLX has no CUDA backend; on a Linux machine with an NVIDIA GPU install it "
                "with: pip install 'mlx[cuda13]'."
            )
        self._gpu = mx.device_info(mx.Device(mx.gpu, 0))

    @cached_property
    def info(self) -> DeviceInfo:
        """Return the GPU's name and the versions that compile and run."""
        return DeviceInfo(
            name="cuda",
            chip=str(self._gpu["device_name"]),
            runtime=f"mlx {version('mlx')}, {self.architecture}",
            measures_time=True,
        )

    @property
    def architecture(self) -> str:
        """NVRTC's name of the GPU's architecture, such as `sm_90`."""
        return str(self._gpu["architecture"])

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> MlxExecutable:
        """Translate and compile every kernel, several at once."""
        if sanitize:
            raise DeviceError("the cuda device has no sanitizer; run the simulator's first.")
        return MlxExecutable(program, compile_launches(program, self.architecture))


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
            init_value=init_value,
            ensure_row_contiguous=True,
            stream=mx.gpu,
        )
        return outputs

    def error(self, error: Exception) -> Exception:
        """Compilation is over by now, so whatever failed is the launch."""
        return launch_error(self.kernel, error)


def compile_launches(program: BoundProgram, architecture: str) -> tuple[CudaLaunch, ...]:
    """Compile every launch ahead of time; NVRTC works outside Python's lock, so in parallel.

    Raises:
        CompileError: a kernel does not compile.
    """
    texts = headers()

    def compiled(launch: Launch) -> CudaLaunch:
        translation = translate(program, launch)
        cubin = compile_cuda(translation.text, texts, architecture=architecture)
        return CudaLaunch(launch.kernel, translation, cubin)

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(compiled, program.launches))
