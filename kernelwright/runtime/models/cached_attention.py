"""Attention of one new token over what a plain cache keeps, by a kernel that takes whole buffers.

mlx-lm's cache grows in steps, and hands out views of the tokens so far, whose length differs at
every call. A kernel is given the buffers themselves, whose length does not, and how many of their
keys count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.trace.replay import to_mlx_dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import have_values
from kernelwright.runtime.first_use import Offer
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.recorded import OpaqueCall, Trace
from kernelwright.runtime.models.rotary import counted
from kernelwright.runtime.models.step_cache import GrowingCache, as_growing, is_plain
from kernelwright.runtime.models.trace import TRACING
from kernelwright.runtime.server import KernelServer

CAPACITIES = (256, 512, 768, 1024, 2048, 4096, 8192)
"""Lengths of a cache at which a kernel that serves any length may have been found."""
_MOST_KERNELS = 64


@dataclass(frozen=True)
class CachedAttention:
    """A call of attention that sees all keys of a cache, each with one query a head."""

    number: int
    """Of the opaque call in the trace."""
    query: TensorType
    key: TensorType
    """Of the one token that the cache takes in before."""
    value: TensorType
    scale: float
    query_place: int
    state_place: int
    """Of the cache in the environment."""
    made_place: int
    taken: int
    """Number of the call by which the cache takes the token in."""

    def nbytes(self, capacity: int) -> int:
        """Return what buffers of a length hold."""
        return capacity * (self.key.nbytes + self.value.nbytes)

    def task(self, capacity: int) -> Graph:
        """Return what a kernel computes for buffers of a length: keys behind the count are unseen.

        Inputs: the queries, the buffers, the number of keys that count.
        """
        (batch, heads, _, width), (*_, depth) = self.key.shape, self.value.shape
        query = _zeros(self.query.shape, self.query)
        keys = _zeros((batch, heads, capacity, width), self.key)
        values = _zeros((batch, heads, capacity, depth), self.value)
        with TRACING:
            raw = ir.capture(self._attend, query, keys, values, mx.array(1, mx.int32))
        return ir.gather_attention(ir.canonicalize(raw))

    def _attend(self, q: mx.array, k: mx.array, v: mx.array, count: mx.array) -> mx.array:
        seen = mx.arange(k.shape[2]) < count
        # No weight is as little as none: zero times what a trimmed cache left behind may be NaN.
        v = mx.where(seen[:, None], v, mx.array(0, v.dtype))
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=self.scale, mask=seen)


def _zeros(shape: tuple[int, ...], like: TensorType) -> mx.array:
    return mx.broadcast_to(mx.array(0, dtype=to_mlx_dtype(like.dtype)), shape)


def cached_attentions(trace: Trace) -> tuple[CachedAttention, ...]:
    """Find the calls of a trace that attend with one query a head to all that a cache keeps."""
    fetched: dict[int, tuple[int, int]] = {}
    found: list[CachedAttention] = []
    for number, call in enumerate(trace.calls):
        if call.kind == "method" and call.name == "update_and_fetch":
            kept = call.result
            if isinstance(kept, tuple) and len(kept) == 2 and all(type(k) is Ref for k in kept):
                fetched |= {ref.place: (number, role) for role, ref in enumerate(kept)}
        elif call.kind == "function" and (one := _attention(trace, number, call, fetched)):
            found.append(one)
    return tuple(found)


def _attention(
    trace: Trace, number: int, call: OpaqueCall, fetched: dict[int, tuple[int, int]]
) -> CachedAttention | None:
    given = dict(zip(("queries", "keys", "values", "cache", "scale"), call.args, strict=False))
    given |= call.kwargs
    if len(call.args) > 5 or not _is_known(call.target):
        return None
    made = call.result
    query, keys, values, cache = (given.get(n) for n in ("queries", "keys", "values", "cache"))
    scale, extra = given.get("scale"), {"mask", "sinks"} & given.keys()
    if any(given[name] is not None for name in extra) or type(scale) is not float:
        return None
    if not all(type(ref) is Ref for ref in (query, keys, values, cache, made)):
        return None
    assert isinstance(made, Ref)
    assert isinstance(query, Ref)
    assert isinstance(keys, Ref)
    assert isinstance(values, Ref)
    assert isinstance(cache, Ref)
    one, other = fetched.get(keys.place), fetched.get(values.place)
    if one is None or other is None or one[0] != other[0] or (one[1], other[1]) != (0, 1):
        return None
    taken = trace.calls[one[0]]
    types = trace.graph.types
    refs = taken.args
    if taken.target != cache or not all(type(r) is Ref and r.place < len(types) for r in refs):
        return None
    key, value = (types[ref.place] for ref in refs)  # type: ignore[attr-defined]
    if query.place >= len(types) or any(len(t.shape) != 4 for t in (types[query.place], key)):
        return None
    if types[query.place].shape[2] != 1 or key.shape[2] != 1 or key.dtype is not value.dtype:
        return None
    return CachedAttention(
        number=number,
        query=types[query.place],
        key=key,
        value=value,
        scale=scale,
        query_place=query.place,
        state_place=cache.place,
        made_place=made.place,
        taken=one[0],
    )


def _is_known(function: object) -> bool:
    """Say whether it is mlx-lm's own function: a model may bring another by its name."""
    from mlx_lm.models import base

    return function is base.scaled_dot_product_attention


Kernel = Callable[..., Sequence[mx.array]]


@dataclass
class AttentionKernels:
    """Kernels for one attention, by the length of the buffers."""

    attention: CachedAttention
    server: KernelServer
    _found: dict[int, Kernel | None] = field(default_factory=dict)
    _offers: dict[int, Offer] = field(default_factory=dict)

    def at(self, capacity: int) -> Kernel | None:
        """Return the kernel for a length, if there is one."""
        if capacity not in self._found:
            if len(self._found) >= _MOST_KERNELS:
                self._found.clear()
            self._found[capacity] = self._look_up(capacity)
        return self._found[capacity]

    def is_known(self, capacity: int) -> bool:
        """Say whether a kernel serves a length, or is to be tried at it."""
        return self.at(capacity) is not None or capacity in self._offers

    @property
    def has_offers(self) -> bool:
        """Say whether kernels from elsewhere are still to be tried."""
        return bool(self._offers)

    def _look_up(self, capacity: int) -> Kernel | None:
        try:
            task = self.attention.task(capacity)
            service = self.server.serve(task)
            if not service.programs and not service.offers:
                others = [self.attention.task(c) for c in CAPACITIES if c != capacity]
                service = self.server.serve_resized(task, others)
        except KernelwrightError:
            return None
        if service.offers and not service.programs:
            self._offers[capacity] = service.offers[0]
        if not service.programs:
            return None
        run = stitch(service.graph, service.replacements)
        return mx.compile(run) if service.is_lazy else run

    def _try(self, offer: Offer, arrays: Sequence[mx.array], count: int) -> None:
        """Try a kernel on a real cache, against MLX's own attention to what was fetched."""
        scale = self.attention.scale

        def fetched(q: mx.array, k: mx.array, v: mx.array) -> list[mx.array]:
            seen = (array[..., :count, :] for array in (k, v))
            return [mx.fast.scaled_dot_product_attention(q, *seen, scale=scale)]

        order = [offer.region.graph.inputs.index(v) for v in offer.region.inputs]

        def mlx(*given: mx.array) -> list[mx.array]:
            by_place = dict(zip(order, given, strict=True))
            return fetched(*(by_place[place] for place in range(3)))

        self.server.settle(offer, [arrays[place] for place in order], mlx)

    def answer(self, query: mx.array, cache: object) -> mx.array | None:
        """Attend to a cache that has taken the new token in; None where no kernel can."""
        if not is_plain(cache):
            recorded = as_growing(cache)
            return None if recorded is None else self._recorded(query, recorded)
        if cache.keys is None:
            return None
        keys, values, count = cache.keys, cache.values, cache.offset
        assert values is not None
        arrays: list[mx.array] = [query, keys, values, counted(count)]
        kernel = self.at(keys.shape[2])
        if kernel is not None:
            return kernel(*arrays)[0]
        offer = self._offers.get(keys.shape[2])
        if offer is not None and have_values(arrays):
            del self._offers[keys.shape[2]]
            self._try(offer, arrays, count)
        return None

    def _recorded(self, query: mx.array, cache: GrowingCache) -> mx.array:
        """Attend while a step is recorded.

        Raises:
            UnsupportedError: no kernel serves buffers of the cache's length.
        """
        kernel = self.at(cache.keys.shape[2])
        if kernel is None:
            raise UnsupportedError("no kernel attends to a cache of this length.")
        return kernel(query, cache.keys, cache.values, cache.offset)[0]


def capacities(value: object) -> list[int]:
    """List the lengths of the buffers of plain caches among a call's arguments."""
    found = {
        leaf.keys.shape[2] for leaf in leaves(value) if is_plain(leaf) and leaf.keys is not None
    }
    return sorted(found)


Fetched = tuple[mx.array, mx.array]


def append(cache: object, keys: mx.array, values: mx.array) -> Fetched | None:
    """Let a cache take keys and values in; None where what it holds was not fetched for that."""
    if is_plain(cache) and cache.keys is not None:
        before, after = cache.offset, cache.offset + keys.shape[2]
        if after <= cache.keys.shape[2]:
            cache.offset = after
            cache.keys[..., before:after, :] = keys
            assert cache.values is not None
            cache.values[..., before:after, :] = values
            return None
    if (recorded := as_growing(cache)) is not None:
        recorded.take(keys, values)
        return None
    fetched: Fetched = cache.update_and_fetch(keys, values)  # type: ignore[attr-defined]
    return fetched


def fetched_from(cache: object, fetched: Fetched | None) -> Fetched:
    """Return what a cache holds behind `append`, which returned `fetched`."""
    if fetched is not None:
        return fetched
    count = cache.offset  # type: ignore[attr-defined]
    return cache.keys[..., :count, :], cache.values[..., :count, :]  # type: ignore[attr-defined]
