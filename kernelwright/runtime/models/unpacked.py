"""Quantized layers in prefill: with packed weights, or unpacked ones where that is faster here.

MLX's CUDA backend (0.32.4) takes two to three times as long for a 4-bit product of 512 rows as for
unpacking the weights and multiplying floats. Other backends do not, so each machine tries it.
"""

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedLinear

from kernelwright.errors import KernelwrightError
from kernelwright.ir.trace.array import to_dtype
from kernelwright.plan.mlx.quantized_product import (
    TRIED_ROWS,
    TRIED_WEIGHTS,
    UNPACKED,
    PackedProduct,
)
from kernelwright.runtime.derivative import have_values
from kernelwright.runtime.server import KernelServer
from kernelwright.store import MachineTrial

LEAST_SIZE = 1 << 17
"""Elements of an input below which nothing is asked: a decode step's host time counts."""
_MOST_BYTES = 1 << 30
"""Of unpacked weights, which take memory while the product runs."""
_SECONDS = 0.1
_LEAST_SPEEDUP = 1.05
_MOST_ERROR = 1.05
_MOST_KNOWN = 4096
"""Kinds of products: each prompt has a length of its own."""
_BUILT = 16
"""Products that are built, and never computed, to see what they take Python."""
_COMPARED = 64
"""Rows and columns whose error is compared."""


class Packed(NamedTuple):
    """Weights as a quantized layer keeps them."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    group_size: int
    bits: int

    def product(self, x: mx.array) -> PackedProduct:
        """Describe the product of an input."""
        columns, dtype = x.shape[-1], to_dtype(x.dtype).value
        shape = tuple(self.weight.shape)
        return PackedProduct(x.size // columns, shape, columns, dtype, self.group_size, self.bits)

    def times(self, x: mx.array) -> mx.array:
        """Multiply as MLX does by packed weights."""
        return mx.quantized_matmul(
            x, *self[:3], transpose=True, group_size=self.group_size, bits=self.bits
        )

    def unpacked_times(self, x: mx.array) -> mx.array:
        """Multiply by the weights, rounded to the input's dtype as MLX unpacks them."""
        # Waiting for the input, a layer's weights are not unpacked before their turn; MLX (0.32.4)
        # cannot map `mx.depends`.
        scales = mx.where(x.reshape(-1)[0] == 0, self.scales, self.scales)
        made = mx.dequantize(
            self.weight, scales, self.biases, group_size=self.group_size, bits=self.bits
        )
        return x @ made.T


Key = tuple[object, ...]


class Unpacking:
    """Knows for which products of many rows unpacked weights are faster on this machine."""

    def __init__(self, server: KernelServer) -> None:
        """Try nothing yet; the server's store remembers what was tried before."""
        self._server = server
        self._known: dict[Key, bool] = {}
        self._lock = threading.Lock()

    def product(self, x: mx.array, packed: Packed) -> mx.array | None:
        """Return a product of unpacked weights; None where packed ones are to be used.

        The first call of a kind compares both in a tenth of a second. Rows count by powers of two.
        """
        key = (x.shape, x.dtype, packed.scales.dtype, packed.weight.shape, *packed[3:])
        known = self._known.get(key)
        if known is None:
            known = self._decided(x, packed)
            if known is None:
                return None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return packed.unpacked_times(x) if known else None

    def _decided(self, x: mx.array, packed: Packed) -> bool | None:
        """Say which is to be used for all such inputs; None where that cannot be told now."""
        asked = packed.product(x)
        if (
            not self._server.measures_time
            or asked.rows < TRIED_ROWS
            or not TRIED_WEIGHTS <= asked.weights <= _MOST_BYTES // x.dtype.size
            or x.dtype != packed.scales.dtype
        ):
            return False
        kind = replace(asked, rows=asked.bucket)
        if not self._lock.acquire(blocking=False):
            # Another thread compares; this call is MLX's.
            return None
        try:
            trial = self._server.machine_trial(kind.trial_id, UNPACKED)
            if trial is None:
                if not have_values([x]):
                    return None
                rows = mx.contiguous(x.reshape(-1, x.shape[-1])[: kind.rows])
                trial = self._tried(kind.trial_id, rows, packed)
            return trial.is_kept
        finally:
            self._lock.release()

    def _tried(self, task_id: str, x: mx.array, packed: Packed) -> MachineTrial:
        info = self._server.device.info  # type: ignore[union-attr]
        error, others = errors(x, packed)
        is_exact = error <= _MOST_ERROR * others
        times: tuple[float | None, float | None] = (None, None)
        reason = "its error is larger than that of packed weights"
        is_kept = False
        if is_exact:
            unpacked_us, packed_us = compared_us(x, packed)
            times = unpacked_us, packed_us
            # A model's host may be what takes longest, and has more to do.
            host_us = more_host_us(x, packed)
            is_kept = packed_us >= _LEAST_SPEEDUP * unpacked_us + host_us
            reason = f"{unpacked_us:.1f} us unpacked, {packed_us:.1f} us packed, {host_us:.1f} host"
        trial = MachineTrial(
            task_id=task_id,
            candidate_id=UNPACKED,
            device=info.name,
            chip=info.chip,
            runtime=info.runtime,
            is_kept=is_kept,
            kernel_us=times[0],
            mlx_us=times[1],
            reason=reason,
        )
        self._server.remember(trial)
        return trial


def errors(x: mx.array, packed: Packed) -> tuple[float, float]:
    """Return the errors of unpacked and packed weights against float32, on a part of them."""
    part = packed._replace(
        weight=packed.weight[:_COMPARED],
        scales=packed.scales[:_COMPARED],
        biases=packed.biases[:_COMPARED],
    )
    exact = part._replace(
        scales=part.scales.astype(mx.float32), biases=part.biases.astype(mx.float32)
    )
    right = exact.unpacked_times(x[:_COMPARED].astype(mx.float32))

    def error(made: mx.array) -> float:
        # All rows are computed: MLX takes other kernels for few.
        off = made[:_COMPARED].astype(mx.float32) - right
        return float(str(mx.sqrt(mx.mean(mx.square(off))).item()))

    return error(part.unpacked_times(x)), error(part.times(x))


def compared_us(x: mx.array, packed: Packed) -> tuple[float, float]:
    """Time a product with unpacked and with packed weights in turns; return the medians."""
    ways = _ways(packed)
    taken: tuple[list[float], list[float]] = ([], [])
    for way in ways:
        mx.eval(way(x))
    count = max(1, min(16, int(_SECONDS / 10 / _timed_s(ways[1], x, 1))))
    ending_s = time.perf_counter() + _SECONDS
    while len(taken[0]) < 3 or time.perf_counter() < ending_s:
        for way, found in zip(ways, taken, strict=True):
            found.append(_timed_s(way, x, count) / count * 1e6)
    return statistics.median(taken[0]), statistics.median(taken[1])


def more_host_us(x: mx.array, packed: Packed) -> float:
    """Return how much longer Python takes to build a product of unpacked weights."""

    def built_s(way: Callable[[mx.array], mx.array]) -> float:
        begun_s = time.perf_counter()
        for _ in range(_BUILT):
            way(x)
        return time.perf_counter() - begun_s

    unpacked_s, packed_s = (min(built_s(way) for _ in range(3)) for way in _ways(packed))
    return max(unpacked_s - packed_s, 0.0) / _BUILT * 1e6


def _ways(packed: Packed) -> tuple[Callable[[mx.array], mx.array], Callable[[mx.array], mx.array]]:
    return packed.unpacked_times, packed.times


def _timed_s(way: Callable[[mx.array], mx.array], x: mx.array, count: int) -> float:
    """Time runs one behind the other: each waits for a value of the one before."""
    mx.synchronize()
    begun_s = time.perf_counter()
    given = x
    for _ in range(count):
        made = way(given)
        given = x + 0 * made.reshape(-1)[0]
    mx.eval(made)
    return time.perf_counter() - begun_s


def unpacking_call(kind: type[Module]) -> Callable[..., mx.array] | None:
    """Return what calls of a quantized linear layer run once it is watched; None for others."""
    own = cast("Callable[[Module, mx.array], mx.array]", QuantizedLinear.__call__)
    if not issubclass(kind, QuantizedLinear) or kind.__call__ is not own:
        return None

    def call(self: QuantizedLinear, x: mx.array) -> mx.array:
        if x.size < LEAST_SIZE or self.mode != "affine":
            return own(self, x)
        return unpacked(self, x)

    return call


def unpacked(layer: QuantizedLinear, x: mx.array) -> mx.array:
    """Answer a call of a watched layer with many rows."""
    from kernelwright.runtime.models.site import site_of

    site = site_of(layer)
    unpacking: Unpacking | None = site.owner.unpacking if site is not None else None
    made = None
    if unpacking is not None:
        packed = Packed(
            layer["weight"], layer["scales"], layer["biases"], layer.group_size, layer.bits
        )
        try:
            made = unpacking.product(x, packed)
        except (KernelwrightError, RuntimeError, ValueError):
            # What MLX cannot unpack here it may still multiply by.
            made = None
    if made is None:
        return cast("mx.array", QuantizedLinear.__call__(layer, x))  # type: ignore[no-untyped-call]
    return made + layer["bias"] if "bias" in layer else made
