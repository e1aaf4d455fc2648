"""A translated launch, compiled for one architecture, in MLX's graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.cuda.translate import Translation
from kernelwright.metal.device.execution import launch_error
from kernelwright.metal.kernel import Kernel


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
