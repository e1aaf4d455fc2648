"""Quantized layers in prefill: with packed weights, or unpacked ones where that is faster here.

Layers of experts are such layers. Where the store has a kernel that unpacks, it takes MLX's place.

MLX's CUDA backend (0.32.4) takes two to three times as long for a 4-bit product of 512 rows as for
unpacking the weights and multiplying floats. Other backends do not, so each machine tries it.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedLinear

from kernelwright.errors import KernelwrightError
from kernelwright.plan.mlx.quantized_product import (
    MOST_BYTES,
    TRIED_ROWS,
    TRIED_WEIGHTS,
    UNPACKED,
    UNPACKED_BY_KERNEL,
    PackedProduct,
)
from kernelwright.runtime.derivative import have_values
from kernelwright.runtime.first_use import Verdict
from kernelwright.runtime.models.packed import Experts, Packed, Unpack, errors
from kernelwright.runtime.models.tree import SITE
from kernelwright.runtime.server import KernelServer
from kernelwright.store import MachineTrial

LEAST_SIZE = 1 << 17
"""Elements of an input below which nothing is asked: a decode step's host time counts."""
_SECONDS = 0.1
_LEAST_SPEEDUP = 1.05
_MOST_ERROR = 1.05
_MOST_KNOWN = 4096
"""Kinds of products: each prompt has a length of its own."""
_BUILT = 16
"""Products that are built, and never computed, to see what they take Python."""
_SWITCH_LAYERS = "mlx_lm.models.switch_layers"

Key = tuple[object, ...]


@dataclass(frozen=True)
class Way:
    """How a kind of product is computed: with packed weights, or unpacked by MLX or a kernel."""

    is_unpacked: bool
    unpack: Unpack | None = None


_PACKED = Way(is_unpacked=False)


class Unpacking:
    """Knows for which products of many rows unpacked weights are faster on this machine."""

    def __init__(self, server: KernelServer) -> None:
        """Try nothing yet; the server's store remembers what was tried before."""
        self._server = server
        self._known: dict[Key, Way] = {}
        self._lock = threading.Lock()

    def way(self, x: mx.array, packed: Packed) -> Way | None:
        """Say how a product is computed; None where that cannot be told now.

        The first call of a kind compares both in a tenth of a second. Rows count by powers of two.
        """
        key = (x.shape, x.dtype, packed.scales.dtype, packed.weight.shape, *packed[3:5])
        known = self._known.get(key)
        if known is None:
            known = self._decided(x, packed)
            if known is None:
                return None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    def _decided(self, x: mx.array, packed: Packed) -> Way | None:
        """Say how all such inputs are multiplied; None where that cannot be told now."""
        asked = packed.product(x)
        if (
            not self._server.measures_time
            or asked.rows < TRIED_ROWS
            or asked.weights < TRIED_WEIGHTS
            or asked.nbytes > MOST_BYTES
            or x.dtype != packed.scales.dtype
        ):
            return _PACKED
        kind = replace(asked, rows=asked.bucket)
        if not self._lock.acquire(blocking=False):
            # Another thread compares; this call is MLX's.
            return None
        try:
            unpack = self._kernel(kind, packed)
            name = UNPACKED if unpack is None else UNPACKED_BY_KERNEL
            trial = self._server.machine_trial(kind.trial_id, name)
            if trial is None:
                if not have_values([x]):
                    return None
                fewer, rows = packed.of_rows(x, kind.rows)
                trial = self._tried(kind.trial_id, name, rows, fewer, unpack)
            return Way(is_unpacked=True, unpack=unpack) if trial.is_kept else _PACKED
        finally:
            self._lock.release()

    def _kernel(self, kind: PackedProduct, packed: Packed) -> Unpack | None:
        """Return the store's kernel for unpacking such weights, tried on these where need be."""
        service = self._server.serve(kind.unpacking)
        if service.offers and have_values([*packed[:3]]):
            for offer in service.offers:
                self._server.settle(offer, packed.matrix)
            service = self._server.serve(kind.unpacking)
        return next(iter(service.programs.values()), None)

    def _tried(
        self, task_id: str, name: str, x: mx.array, packed: Packed, unpack: Unpack | None
    ) -> MachineTrial:
        info = self._server.device.info  # type: ignore[union-attr]
        try:
            verdict = _compared(name, x, packed, unpack)
        except (RuntimeError, ValueError) as e:
            # What MLX cannot unpack here it may still multiply by; it is not asked at each call.
            verdict = Verdict(name, False, f"it does not run here: {str(e)[:200]}")
        trial = verdict.trial(task_id, info.name, info.chip, info.runtime)
        self._server.remember(trial)
        return trial


def _compared(name: str, x: mx.array, packed: Packed, unpack: Unpack | None) -> Verdict:
    """Compare a product with packed and unpacked weights: the error, then the time."""
    error, others = errors(x, packed)
    if error > _MOST_ERROR * others:
        return Verdict(name, False, "its error is larger than that of packed weights")
    unpacked_us, packed_us = compared_us(x, packed, unpack)
    # A model's host may be what takes longest, and has more to do.
    host_us = more_host_us(x, packed, unpack)
    is_kept = packed_us >= _LEAST_SPEEDUP * unpacked_us + host_us
    words = f"{unpacked_us:.1f} us unpacked, {packed_us:.1f} us packed, {host_us:.1f} host"
    return Verdict(name, is_kept, words, kernel_us=unpacked_us, mlx_us=packed_us)


def compared_us(x: mx.array, packed: Packed, unpack: Unpack | None) -> tuple[float, float]:
    """Time a product with unpacked and with packed weights in turns; return the medians."""
    ways = _ways(packed, unpack)
    taken: tuple[list[float], list[float]] = ([], [])
    for way in ways:
        mx.eval(way(x))
    count = max(1, min(16, int(_SECONDS / 10 / _timed_s(ways[1], x, 1))))
    ending_s = time.perf_counter() + _SECONDS
    while len(taken[0]) < 3 or time.perf_counter() < ending_s:
        for way, found in zip(ways, taken, strict=True):
            found.append(_timed_s(way, x, count) / count * 1e6)
    return statistics.median(taken[0]), statistics.median(taken[1])


def more_host_us(x: mx.array, packed: Packed, unpack: Unpack | None) -> float:
    """Return how much longer Python takes to build a product of unpacked weights."""

    def built_s(way: Callable[[mx.array], mx.array]) -> float:
        begun_s = time.perf_counter()
        for _ in range(_BUILT):
            way(x)
        return time.perf_counter() - begun_s

    unpacked_s, packed_s = (min(built_s(way) for _ in range(3)) for way in _ways(packed, unpack))
    return max(unpacked_s - packed_s, 0.0) / _BUILT * 1e6


def _ways(
    packed: Packed, unpack: Unpack | None
) -> tuple[Callable[[mx.array], mx.array], Callable[[mx.array], mx.array]]:
    return lambda x: packed.unpacked_times(x, unpack), packed.times


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
    """Return what calls of a quantized layer run once it is watched; None for others."""
    if issubclass(kind, QuantizedLinear):
        return _linear_call if kind.__call__ is QuantizedLinear.__call__ else None
    layers = sys.modules.get(_SWITCH_LAYERS)
    switch = getattr(layers, "QuantizedSwitchLinear", None)
    if switch is not None and issubclass(kind, switch) and kind.__call__ is switch.__call__:
        return _switch_call(switch)
    return None


class PackedInputs:
    """The inputs that a layer multiplies by packed weights, in one epoch of its model.

    A prompt of a small model waits for Python, so that asking has to be short.
    """

    __slots__ = ("_dtypes", "_epoch")

    def __init__(self) -> None:
        """Know none."""
        self._dtypes: dict[tuple[int, ...], mx.Dtype] = {}
        self._epoch = -1

    def have(self, x: mx.array, epoch: int) -> bool:
        """Say whether an input is one of them."""
        known = self._dtypes.get(x.shape)
        return known is not None and self._epoch == epoch and known == x.dtype

    def add(self, x: mx.array, epoch: int) -> None:
        """Note an input; what was noted in another epoch is forgotten."""
        if self._epoch != epoch or len(self._dtypes) >= _MOST_KNOWN:
            self._dtypes = {}
        self._epoch = epoch
        self._dtypes[x.shape] = x.dtype


def _linear_call(self: QuantizedLinear, x: mx.array) -> mx.array:
    made = None
    if x.size >= LEAST_SIZE:
        made = _unpacked(self, x, None)
    if made is None:
        return cast("mx.array", QuantizedLinear.__call__(self, x))  # type: ignore[no-untyped-call]
    return made + self["bias"] if "bias" in self else made


def _switch_call(switch: type[Module]) -> Callable[..., mx.array]:
    """Return the call of a layer of experts: sorted rows, each of one expert, may be unpacked."""

    def call(
        self: Module, x: mx.array, indices: mx.array, sorted_indices: bool = False
    ) -> mx.array:
        made = None
        if x.size >= LEAST_SIZE and x.shape[-2] == 1 and x.shape[:-2] == indices.shape:
            made = _unpacked(self, x, Experts(indices, sorted_indices))
        if made is None:
            own = cast("Callable[..., mx.array]", switch.__call__)
            return own(self, x, indices, sorted_indices=sorted_indices)
        if "bias" in self:
            made = made + mx.expand_dims(self["bias"][indices], -2)
        return made

    return call


def _unpacked(layer: Module, x: mx.array, experts: Experts | None) -> mx.array | None:
    """Multiply many rows by a watched layer's unpacked weights; None where MLX's way is to be."""
    site = vars(layer).get(SITE)
    if site is None or site.packed_inputs.have(x, site.owner.epoch):
        return None
    unpacking: Unpacking | None = site.owner.unpacking
    if unpacking is None or layer.mode != "affine" or layer.get("biases") is None:
        site.packed_inputs.add(x, site.owner.epoch)
        return None
    weights = (layer["weight"], layer["scales"], layer["biases"])
    packed = Packed(*weights, layer.group_size, layer.bits, experts)
    try:
        way = unpacking.way(x, packed)
    except KernelwrightError:
        return None
    if way is not None and not way.is_unpacked:
        site.packed_inputs.add(x, site.owner.epoch)
    return packed.unpacked_times(x, way.unpack) if way and way.is_unpacked else None
