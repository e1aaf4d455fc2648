"""A plan is never worse than what MLX does without it."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.campaign import Subject, capture_subjects, offline_team
from kernelwright.campaign.planning.capturing import FunctionPlan, plan_function
from kernelwright.campaign.planning.plan_check import REASON
from kernelwright.ir import compiled_traffic, planned_traffic
from kernelwright.ir.cost import DEFAULT_PROFILE, time_us
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.metal.device.registry import open_device

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
def test_a_plan_of_the_catalog_is_no_worse_than_mx_compile(entry: catalog.Entry) -> None:
    arrays = [mx.zeros(t.shape, mlx_dtype(t.dtype)) for t in entry.types(Dtype.FLOAT16)]
    _check(_planned(entry.function, tuple(arrays)))


def _check(plan: FunctionPlan) -> None:
    planned, compiled = planned_traffic(plan.graph, plan.regions), compiled_traffic(plan.graph)
    assert planned.launches <= compiled.launches
    assert time_us(planned, DEFAULT_PROFILE) <= time_us(compiled, DEFAULT_PROFILE)


def _planned(function: Callable[..., object], arrays: tuple[mx.array, ...]) -> FunctionPlan:
    (captured,) = capture_subjects([Subject("f", function, arrays, {}, "f.py")]).functions
    return plan_function(captured, offline_team().planner, open_device("simulator").info)
