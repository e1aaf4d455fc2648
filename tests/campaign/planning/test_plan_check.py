"""A plan is never worse than what MLX does without it."""

import random
from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.agents.protocols import Plan, PlannedRegion
from kernelwright.campaign import Subject, capture_subjects, offline_team
from kernelwright.campaign.planning import plan_summary
from kernelwright.campaign.planning.capturing import FunctionPlan, plan_function
from kernelwright.campaign.planning.launch_graph import Flow
from kernelwright.campaign.planning.plan_check import REASON
from kernelwright.ir import Graph, Region, canonicalize, capture, standardize
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.registry import open_device
from kernelwright.plan import (
    best_traffic,
    compiled_traffic,
    eager_traffic,
    fast_traffic,
    planned_traffic,
)
from kernelwright.plan.cost import DEFAULT_PROFILE, time_us

COMPLEX = mx.zeros((16, 16), mx.complex64)
REAL = mx.zeros((16, 16))
FUNCTIONS: dict[str, tuple[Callable[..., mx.array], tuple[mx.array, ...]]] = {
    "modulus": (lambda z: mx.abs(z) * 2, (COMPLEX,)),
    "modulus by parts": (lambda z: mx.sqrt(mx.real(z) ** 2 + mx.imag(z) ** 2), (COMPLEX,)),
    "complex exp": (lambda z: mx.exp(z) * 2, (COMPLEX,)),
    "rotation": (lambda z, t: z * mx.exp(1j * t), (COMPLEX, REAL)),
    "real of exp": (lambda z: mx.real(mx.exp(z)), (COMPLEX,)),
    "norm of parts": (
        lambda z: (mx.real(z) - mx.imag(z)).sum(axis=-1) + mx.abs(z).max(axis=-1),
        (COMPLEX,),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_plan_of_complex_numbers_is_no_worse_than_mx_compile(name: str) -> None:
    _check(_planned(*FUNCTIONS[name]))


def test_what_was_left_out_has_its_reason() -> None:
    plan = _planned(*FUNCTIONS["modulus"])
    assert not plan.regions
    assert {left.op for left in plan.left if left.reason == REASON} == {"multiply"}


@pytest.mark.parametrize("entry", catalog.entries(), ids=lambda entry: entry.name)
@pytest.mark.sampled(50)
def test_a_plan_of_the_catalog_is_no_worse_than_mx_compile(entry: catalog.Entry) -> None:
    arrays = [mx.zeros(t.shape, mlx_dtype(t.dtype)) for t in entry.types(Dtype.FLOAT16)]
    _check(_planned(entry.function, tuple(arrays)))


def _rope(x: mx.array) -> mx.array:
    half = x.shape[-1] // 2
    angles = mx.arange(x.shape[-2])[:, None] * mx.exp(-mx.arange(half) * 0.3)
    a, b = x[..., :half], x[..., half:]
    cos, sin = mx.cos(angles), mx.sin(angles)
    return mx.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _rotated_attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.softmax((_rope(q) @ _rope(k).T) * 0.125, axis=-1) @ v


def test_no_region_cuts_what_mlx_does_in_one_kernel() -> None:
    plan = _planned(_rotated_attention, (mx.zeros((64, 64)),) * 3)
    _check(plan)
    assert not plan.regions
    told = plan_summary.outline(plan)
    assert [step.ops for step in told.steps][:2] == [("mx.fast.rope",)] * 2
    assert len(told.steps) == told.traffic.planned_launches == plan.work.fast.launches


def _random_function(seed: int) -> Callable[[mx.array, mx.array], list[mx.array]]:
    """Return a function of two square arrays that is drawn by the seed."""
    chance = random.Random(seed)
    drawn = [(chance.choice(_STEPS), chance.random()) for _ in range(chance.randint(2, 14))]
    results = chance.choice((1, 1, 2, 3))

    def function(x: mx.array, y: mx.array) -> list[mx.array]:
        values = [x, y]
        for step, share in drawn:
            last = values[-1 - int(share * 7) % min(len(values), 3)]
            values.append(step(last, values[int(share * len(values))]))
        return values[-results:]

    return function


_STEPS: tuple[Callable[[mx.array, mx.array], mx.array], ...] = (
    lambda a, b: mx.exp(a) * 1.0,
    lambda a, b: mx.abs(a) + 0,
    lambda a, b: a * (b if a.shape == b.shape else mx.sum(b)),
    lambda a, b: a + mx.real(a),
    lambda a, b: mx.where(mx.real(a) > 0, a, a * 0.1),
    lambda a, b: mx.softmax(mx.real(a), axis=-1),
    lambda a, b: mx.fast.rms_norm(mx.real(a), None, 1e-5),
    lambda a, b: a - mx.real(a).mean(axis=-1, keepdims=True),
    lambda a, b: a.sum(axis=-1, keepdims=True) + a,
    lambda a, b: a[..., : a.shape[-1] // 2] if a.shape[-1] > 8 else a,
    lambda a, b: a.swapaxes(-1, -2),
    lambda a, b: mx.real(a) @ mx.real(a).swapaxes(-1, -2) * 0.1,
    lambda a, b: mx.concatenate([a, a * 2], axis=-1),
    lambda a, b: mx.cumsum(mx.real(a), axis=-1),
    lambda a, b: _rope(mx.real(a)) if a.shape[-1] > 4 else a,
)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.complex64], ids=str)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sampled(12)
def test_a_plan_of_any_function_is_no_worse_than_mlx_at_its_best(
    seed: int, dtype: mx.Dtype
) -> None:
    array = mx.zeros((64, 64), dtype)
    plan = _planned(_random_function(seed), (array, array))
    if plan.regions:
        _check(plan)
    told = plan_summary.outline(plan)
    assert told.limit is None or told.limit.ratio >= 0.999
    assert sum(step.launches for step in told.steps) == told.traffic.planned_launches


def _check(plan: FunctionPlan) -> None:
    graph, covered = plan.graph, {i for region in plan.regions for i in region.indices}
    rest = [i for i in range(len(graph.nodes)) if i not in covered]
    planned = planned_traffic(graph, plan.regions, covered) + best_traffic(graph, rest)
    standard = standardize(graph)
    mlx_us = [
        time_us(way, DEFAULT_PROFILE)
        for way in (eager_traffic(standard), compiled_traffic(standard), fast_traffic(standard))
    ]
    if plan.regions:
        assert time_us(planned, DEFAULT_PROFILE) <= min(mlx_us) + 1e-6


def _planned(function: Callable[..., object], arrays: tuple[mx.array, ...]) -> FunctionPlan:
    (captured,) = capture_subjects([Subject("f", function, arrays, {}, "f.py")]).functions
    return plan_function(captured, offline_team().planner, open_device("simulator").info)


class _Careless:
    """Cuts a region out of the middle of what MLX fuses, as a weak model does."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        region = PlannedRegion(indices=(0, 1), strategy="Some.", benefit="None.")
        return Plan(regions=(region,), author="a model")


def _normed(x: mx.array, residual: mx.array) -> mx.array:
    total = x + residual
    return total * mx.rsqrt(mx.mean(total * total, axis=-1, keepdims=True) + 1e-5)


def test_a_cut_of_which_nothing_is_worth_a_kernel_is_made_offline() -> None:
    arrays = (mx.zeros((64, 1024)), mx.zeros((64, 1024)))
    (captured,) = capture_subjects([Subject("f", _normed, arrays, {}, "f.py")]).functions
    plan = plan_function(captured, _Careless(), open_device("simulator").info)
    assert plan.regions == _planned(_normed, arrays).regions
    assert len(plan.regions) == 1
    assert plan.author == "offline"


def test_a_region_of_views_alone_is_a_step_of_the_plan() -> None:
    graph = canonicalize(capture(lambda x: mx.repeat(x, 2, 0)[::2], mx.zeros((512, 512))))
    whole = Region(graph, tuple(range(len(graph.nodes))))
    (unit,) = Flow(graph, (whole,)).units
    assert unit.region == whole
