"""The `cuda` device: translated kernels, launched through MLX's CUDA backend."""

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import ml_dtypes
import mlx.core as mx
import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import Array, DeviceInfo, RunOptions, RunResult
from kernelwright.metal.device.cuda.nvrtc import compile_cuda, is_available
from kernelwright.metal.device.cuda.translate import Translation, headers, translate
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.kernel import BoundProgram, Launch

METAL_THREADGROUP_BYTES = 32768
_SENTINEL = 85.0
"""Fills outputs when a NaN cannot: integers, and the second poison pattern."""


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

    @cached_property
    def info(self) -> DeviceInfo:
        """Return the GPU's name and the versions that compile and run."""
        found = mx.device_info(mx.Device(mx.gpu, 0))
        return DeviceInfo(
            name="cuda",
            chip=str(found.get("device_name", "NVIDIA GPU")),
            runtime=f"mlx {version('mlx')}, {self.architecture}",
            measures_time=True,
            threadgroup_bytes=METAL_THREADGROUP_BYTES,
        )

    @cached_property
    def architecture(self) -> str:
        """NVRTC's name of the GPU's architecture, such as `sm_90`."""
        found = mx.device_info(mx.Device(mx.gpu, 0))
        major = found.get("compute_capability_major", 9)
        minor = found.get("compute_capability_minor", 0)
        return f"sm_{major}{minor}"

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> "CudaExecutable":
        """Translate and compile every kernel, several at once."""
        if sanitize:
            raise DeviceError("the cuda device has no sanitizer; run the simulator's first.")
        return CudaExecutable(program, tuple(_compile(program, self.architecture)))


@dataclass(frozen=True)
class CompiledKernel:
    """One launch, ready to run."""

    launch: Launch
    translation: Translation
    cubin: bytes

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Add the launch to MLX's graph; outputs have the given types."""
        outputs: list[mx.array] = mx.fast.precompiled_cuda_kernel(
            name=self.translation.symbol,
            compiled_source=self.cubin,
            inputs=list(arrays),
            output_shapes=[t.shape for t in types],
            output_dtypes=[getattr(mx, t.dtype.value) for t in types],
            scalars=[],
            grid=self.translation.grid,
            threadgroup=(self.translation.threads, 1, 1),
            init_value=init_value,
            ensure_row_contiguous=True,
            stream=mx.gpu,
        )
        return outputs


@dataclass(frozen=True)
class CudaExecutable:
    """A compiled program; `graph` adds it to a computation, `run` checks what it does."""

    program: BoundProgram
    kernels: tuple[CompiledKernel, ...]

    def graph(self, inputs: Sequence[mx.array]) -> list[mx.array]:
        """Return the program's outputs as unevaluated arrays, for timing and for use."""
        names = [t.name for t in self.program.program.inputs]
        arrays = dict(zip(names, inputs, strict=True))
        for kernel in self.kernels:
            written = kernel.launch.kernel.outputs
            types = [self.program.type_of(name) for name in written]
            read = [arrays[name] for name in kernel.launch.kernel.inputs]
            made = kernel.call(read, types, kernel.launch.kernel.init_value)
            arrays.update(zip(written, made, strict=True))
        return [arrays[t.name] for t in self.program.program.outputs]

    def run(self, inputs: Sequence[Array], options: RunOptions) -> RunResult:
        """Run on copies of the inputs; outputs are poisoned and padded at their ends."""
        arrays = {
            tensor.name: to_mlx(array)
            for tensor, array in zip(self.program.program.inputs, inputs, strict=True)
        }
        intact: dict[str, bool] = {}
        started = time.perf_counter()
        for kernel in self.kernels:
            self._step(kernel, arrays, intact, options)
        elapsed_s = time.perf_counter() - started
        outputs = self.program.program.outputs
        return RunResult(
            outputs=tuple(to_numpy(arrays[t.name]) for t in outputs),
            canaries_intact=tuple(intact[t.name] for t in outputs),
            inputs_intact=all(
                _same_bytes(to_numpy(arrays[tensor.name]), array)
                for tensor, array in zip(self.program.program.inputs, inputs, strict=True)
            ),
            elapsed_s=elapsed_s,
        )

    def _step(
        self,
        kernel: CompiledKernel,
        arrays: dict[str, mx.array],
        intact: dict[str, bool],
        options: RunOptions,
    ) -> None:
        written = kernel.launch.kernel.outputs
        types = [self.program.type_of(name) for name in written]
        padded = [_padded(t, options.padding_bytes) for t in types]
        poison = _poison(options.poison, types)
        fill = kernel.launch.kernel.init_value
        try:
            made = kernel.call(
                [arrays[name] for name in kernel.launch.kernel.inputs],
                padded,
                poison if fill is None else fill,
            )
            mx.eval(made)
        except (RuntimeError, ValueError) as e:
            raise LaunchError(f"kernel {kernel.launch.kernel.name} did not run: {e}") from e
        expected = poison if fill is None else fill
        for name, type_, array in zip(written, types, made, strict=True):
            flat = to_numpy(array)
            canary = np.full(1, expected).astype(flat.dtype)
            intact[name] = _same_bytes(
                flat[type_.size :], np.resize(canary, flat.size - type_.size)
            )
            arrays[name] = array[: type_.size].reshape(type_.shape)


def _compile(program: BoundProgram, architecture: str) -> list[CompiledKernel]:
    texts = headers()

    def compiled(launch: Launch) -> CompiledKernel:
        translation = translate(program, launch)
        cubin = compile_cuda(translation.text, texts, architecture=architecture)
        return CompiledKernel(launch, translation, cubin)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compiled, program.launches))


def _padded(type_: TensorType, padding_bytes: int) -> TensorType:
    padding = -(-padding_bytes // type_.dtype.itemsize)
    return TensorType((type_.size + padding,), type_.dtype)


def _poison(pattern: int, types: Sequence[TensorType]) -> float:
    floats = all(t.dtype.is_float for t in types)
    return math.nan if floats and pattern == 0xFF else _SENTINEL


def _same_bytes(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def to_mlx(array: Array) -> mx.array:
    """Copy a NumPy array to MLX; bfloat16 travels as its 16 bits."""
    dense = np.asarray(array, order="C")
    if dense.dtype == np.dtype(ml_dtypes.bfloat16):
        return mx.array(dense.view(np.uint16)).view(mx.bfloat16)
    return mx.array(dense)


def to_numpy(array: mx.array) -> Array:
    """Copy an MLX array to NumPy; bfloat16 becomes `ml_dtypes.bfloat16`."""
    if array.dtype == mx.bfloat16:
        bits: Array = np.array(array.view(mx.uint16))
        return bits.view(Dtype.BFLOAT16.numpy)
    return np.array(array)
