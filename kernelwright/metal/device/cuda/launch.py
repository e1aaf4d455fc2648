"""A translated launch, compiled for one architecture, in MLX's graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.cuda.module_key import short_key
from kernelwright.metal.device.cuda.translate import Translation
from kernelwright.metal.device.execution import launch_error
from kernelwright.metal.kernel import Kernel


@dataclass
class CudaLaunch:
    """One launch, compiled for one architecture."""

    kernel: Kernel
    translation: Translation
    cubin: bytes
    _key: bytes = field(init=False, repr=False)
    """What MLX finds the binary by: the binary itself, or less once it is loaded."""

    def __post_init__(self) -> None:
        self._key = self.cubin

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Add the launch to MLX's graph."""
        outputs: list[mx.array] = mx.fast.precompiled_cuda_kernel(
            name=self.translation.symbol,
            compiled_source=self._key,
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

    def load(self, arrays: Sequence[mx.array], types: Sequence[TensorType]) -> list[mx.array]:
        """Run once on arrays, so that MLX loads the binary and later launches need not name it.

        Where MLX does not find it by less, the binary is named as before.
        """
        self._key = self.cubin
        expected = self.call(arrays, types, self.kernel.init_value)
        mx.eval(expected)
        self._key = short_key(self.cubin)
        try:
            mx.eval(self.call(arrays, types, self.kernel.init_value))
        except RuntimeError:
            self._key = self.cubin
        return expected

    def error(self, error: Exception) -> Exception:
        """Compilation is over by now, so whatever failed is the launch."""
        return launch_error(self.kernel, error)
