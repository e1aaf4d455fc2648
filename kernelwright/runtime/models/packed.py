"""Packed weights of quantized layers, and both ways to multiply by them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx

from kernelwright.ir.trace.array import to_dtype
from kernelwright.plan.mlx.quantized_product import PackedProduct

_COMPARED = 64
"""Rows and columns whose error is compared."""
Unpack = Callable[[Sequence[mx.array]], Sequence[mx.array]]
"""Makes weights of the words, scales and biases of one matrix."""


class Experts(NamedTuple):
    """Which of a layer's matrices each row is multiplied by."""

    indices: mx.array
    is_sorted: bool


class Packed(NamedTuple):
    """Weights as a quantized layer keeps them."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    group_size: int
    bits: int
    experts: Experts | None = None

    def product(self, x: mx.array) -> PackedProduct:
        """Describe the product of an input."""
        columns, dtype = x.shape[-1], to_dtype(x.dtype).value
        shape = tuple(self.weight.shape)
        return PackedProduct(x.size // columns, shape, columns, dtype, self.group_size, self.bits)

    def times(self, x: mx.array) -> mx.array:
        """Multiply as MLX does by packed weights."""
        quantization = {"transpose": True, "group_size": self.group_size, "bits": self.bits}
        if self.experts is None:
            return mx.quantized_matmul(x, *self[:3], **quantization)  # type: ignore[arg-type]
        return mx.gather_qmm(
            x,
            *self[:3],
            rhs_indices=self.experts.indices,
            sorted_indices=self.experts.is_sorted,
            **quantization,  # type: ignore[arg-type]
        )

    def unpacked_times(self, x: mx.array, unpack: Unpack | None = None) -> mx.array:
        """Multiply by the weights, rounded to the input's dtype as MLX unpacks them.

        `unpack` is a kernel that takes MLX's place.
        """
        # Waiting for the input, a layer's weights are not unpacked before their turn; MLX (0.32.4)
        # cannot map `mx.depends`.
        scales = mx.where(x.reshape(-1)[0] == 0, self.scales, self.scales)
        given = self._replace(scales=scales).matrix
        made = self.unpacked(given) if unpack is None else unpack(given)[0]
        if self.experts is None:
            return x @ made.T
        return mx.gather_mm(
            x,
            made.reshape(*self.weight.shape[:-1], -1).swapaxes(-1, -2),
            rhs_indices=self.experts.indices,
            sorted_indices=self.experts.is_sorted,
        )

    @property
    def matrix(self) -> tuple[mx.array, mx.array, mx.array]:
        """Words, scales and biases of one matrix: those of experts stand below each other."""
        weight, scales, biases = (
            a.reshape(-1, a.shape[-1]) for a in (self.weight, self.scales, self.biases)
        )
        return weight, scales, biases

    def unpacked(self, matrix: Sequence[mx.array]) -> mx.array:
        """Unpack as MLX does."""
        weight, scales, biases = matrix
        return mx.dequantize(weight, scales, biases, group_size=self.group_size, bits=self.bits)

    def of_rows(self, x: mx.array, most: int) -> tuple["Packed", mx.array]:
        """Return some of the rows, with the experts that they are multiplied by."""
        rows = mx.contiguous(x.reshape(-1, 1, x.shape[-1])[:most])
        if self.experts is None:
            return self, rows[:, 0]
        indices = mx.contiguous(self.experts.indices.reshape(-1)[:most])
        return self._replace(experts=self.experts._replace(indices=indices)), rows


def errors(x: mx.array, packed: Packed) -> tuple[float, float]:
    """Return the errors of unpacked and packed weights against float32, on a part of them."""
    weight, scales, biases = (mx.contiguous(a[..., :_COMPARED, :]) for a in packed[:3])
    part = packed._replace(weight=weight, scales=scales, biases=biases)
    few, rows = part.of_rows(x, _COMPARED)
    exact = few._replace(scales=few.scales.astype(mx.float32), biases=few.biases.astype(mx.float32))
    right = exact.unpacked_times(rows.astype(mx.float32)).reshape(len(rows), -1)

    def error(made: mx.array) -> float:
        # All rows are computed: MLX takes other kernels for few.
        off = made.reshape(-1, made.shape[-1])[: len(rows)].astype(mx.float32) - right
        return float(str(mx.sqrt(mx.mean(mx.square(off))).item()))

    return error(part.unpacked_times(x)), error(part.times(x))
