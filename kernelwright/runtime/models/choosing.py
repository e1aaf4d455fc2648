"""Which parts of a workload are worth a search: seconds above the floor, times calls."""

from dataclasses import dataclass, replace

import mlx.core as mx

from kernelwright import ir
from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.evaluator.speed.roofline import least_bytes
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.passes.attention_steps import has_attention
from kernelwright.ir.trace.replay import to_mlx_dtype
from kernelwright.metal.device.executable import Device
from kernelwright.metal.perf import find_profile
from kernelwright.plan import compiled_traffic, fast_traffic
from kernelwright.plan.mlx.quantized_product import (
    LEAST_ROWS,
    MOST_BYTES,
    TRIED_WEIGHTS,
    packed_products,
)
from kernelwright.runtime.chain import chained_us, mlx_chain
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.models.workload import Workload

_PACKED_LIMIT = 1 << 30
_LAUNCH_US = 2.0
"""What the least kernel takes in a stream of others, on one H200."""
_MLX_LAUNCH_US = 3.0
"""What one of MLX's takes there, an elementwise op or a norm."""
_BYTES_PER_US = 4.3e6
"""Of one H200, measured by a copy; other chips have less, and the same order of parts."""
_LEAST_SHARE = 0.002
"""Of all that could be saved: less than this is noise."""
_Found = dict[str, tuple[Graph, dict[str, None], int]]
"""Tasks by their fingerprints: where each is computed, and how often."""
_ROTATION_BYTES, _MOST_SETS = 256 << 20, 8


@dataclass(frozen=True)
class Choice:
    """A task of a workload: what it takes now, and what it must."""

    graph: Graph
    name: str
    where: tuple[str, ...]
    calls: int
    """In the whole workload."""
    taken_us: float
    is_measured: bool
    floor_us: float
    refused: str = ""
    """Why no search can pay; empty where one may."""

    @property
    def gain_us(self) -> float:
        """Microseconds of the workload above the floor."""
        return max(self.taken_us - self.floor_us, 0.0) * self.calls


def choose(workload: Workload, device: Device | None) -> tuple[Choice, ...]:
    """List the tasks of a workload, most worth a search first; those refused come last."""
    found: _Found = {}
    for part in sorted(workload.parts, key=lambda part: part.is_alternative):
        known = set(found) if part.is_alternative else set()
        for region in regions_of(part.computed):
            task = region.extract()
            if task.fingerprint in known:
                # The part whose place it takes has it as well.
                continue
            calls = part.times * workload.calls[part.call]
            _note(found, task, f"{part.call}: {part.module}", calls)
    choices = [_choice(*values, device) for values in found.values()]
    total = sum(choice.gain_us for choice in choices) or 1.0
    judged = [_judged(choice, total) for choice in choices]
    if _multiplies_unpacked(workload, device):
        of_prompts = _unpackings(workload)
        known = {choice.graph.fingerprint for choice in judged}
        judged += [_choice(*v, device) for key, v in of_prompts.items() if key not in known]
    return tuple(sorted(judged, key=lambda c: (bool(c.refused), -c.gain_us)))


def _multiplies_unpacked(workload: Workload, device: Device | None) -> bool:
    """Say whether unpacking weights for the many rows of a prompt is known to pay on that GPU."""
    if device is not None and device.info.measures_time:
        return device.info.name in LEAST_ROWS
    return bool(workload.chip) and find_profile(workload.chip).vendor == "nvidia"


def _unpackings(workload: Workload) -> _Found:
    """List the tasks of unpacking weights, which each prompt does once.

    They save a prompt its time, and little of all that follows: that does not speak against them.
    """
    found: _Found = {}
    # A head, which is computed once, sees one row of a prompt.
    for part in (part for part in workload.parts if part.times > 1):
        for product in packed_products(part.computed):
            if product.weights < TRIED_WEIGHTS or product.nbytes > MOST_BYTES:
                continue
            (region,) = regions_of(product.unpacking)
            _note(found, region.extract(), f"prompts: {part.module}", part.times)
    return found


def _note(found: _Found, task: Graph, place: str, calls: int) -> None:
    """Add calls of a task, made at a place."""
    _, where, known = found.get(task.fingerprint, (task, {}, 0))
    where[place] = None
    found[task.fingerprint] = (task, where, known + calls)


def _choice(task: Graph, where: dict[str, None], calls: int, device: Device | None) -> Choice:
    floor_us = _LAUNCH_US + least_bytes(task) / _BYTES_PER_US
    is_measured = device is not None and device.info.measures_time
    taken_us = _measured_us(task) if is_measured else _estimated_us(task)
    return Choice(task, ir.operation(task), tuple(where), calls, taken_us, is_measured, floor_us)


def _judged(choice: Choice, total_us: float) -> Choice:
    if choice.taken_us <= 1.1 * choice.floor_us:
        return replace(choice, refused="MLX takes no more than its bytes and a launch must")
    if choice.gain_us < _LEAST_SHARE * total_us:
        share = 100 * choice.gain_us / total_us
        return replace(choice, refused=f"all of it is {share:.2g} % of what could be saved")
    return choice


def _estimated_us(task: Graph) -> float:
    traffic = min(
        (compiled_traffic(task), fast_traffic(task)), key=lambda traffic: traffic.launches
    )
    # Of what a cache keeps MLX reads a view of the keys that count, and needs no mask.
    launches = 1 if has_attention(task) else traffic.launches
    return launches * _MLX_LAUNCH_US + traffic.nbytes / _BYTES_PER_US


def _measured_us(task: Graph) -> float:
    """Time MLX's own kernels, one after another: several inputs, so that no cache serves all."""
    sets = several_inputs(task)
    return chained_us(task, mlx_chain(task), sets)


def several_inputs(task: Graph) -> list[list[mx.array]]:
    """Draw inputs that are more bytes than a cache holds, unless one set is."""
    nbytes = sum(t.nbytes for t in task.input_types)
    count = min(max(_ROTATION_BYTES // max(nbytes, 1), 1), _MOST_SETS)
    sets = [drawn_inputs(task, seed) for seed in range(count)]
    mx.eval(sets)
    return sets


def drawn_inputs(task: Graph, seed: int) -> list[mx.array]:
    """Draw inputs of a part that MLX can compute it with."""
    keys = mx.random.split(mx.random.key(seed), max(len(task.inputs), 2))
    drawn = zip(task.input_types, domains_of(task), keys, strict=False)
    return [_drawn(type_, domain, key) for type_, domain, key in drawn]


def _drawn(type_: TensorType, domain: Domain, key: mx.array) -> mx.array:
    dtype = to_mlx_dtype(type_.dtype)
    if type_.dtype.is_float:
        return mx.random.normal(type_.shape, key=key).astype(dtype)
    # MLX reads and writes wherever an index points; packed words take nearly every bit.
    limit = domain.index_limit or (_PACKED_LIMIT if domain.is_packed else 1)
    return mx.random.randint(0, limit, type_.shape, key=key).astype(dtype)
