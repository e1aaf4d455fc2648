"""What a family serves, lowering writes; what none serves, it refuses in a sentence."""

from collections.abc import Callable

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import example as shown_before
from hypothesis import strategies as st

from kernelwright.errors import UnsupportedError
from kernelwright.ir import Graph, canonicalize, capture, gather_attention
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import legality, partition
from tests.ir.op_steps import Drawn, OpProgram, matrices, op_programs
from tests.ir.programs import ALL_KINDS, Program, example, programs

DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)
X = mx.zeros((1, 64))
PACKED = mx.quantize(mx.ones((64, 64)))


def graph_of(function: Callable[..., object], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return gather_attention(canonicalize(capture(function, *arrays)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.cumsum(mx.softmax(x, axis=-1), axis=-1),
        lambda x: mx.quantized_matmul(mx.cumsum(x, axis=-1), *PACKED),
        lambda x: mx.sort(x, axis=-1) * 2,
    ],
)
def test_what_no_family_serves_is_refused_with_its_reason(
    function: Callable[..., object],
) -> None:
    graph = graph_of(function, X)
    reason = classify(graph).reason
    assert reason
    with pytest.raises(UnsupportedError, match="no family of kernels computes this") as caught:
        schedules(graph, DEVICE)
    assert reason in str(caught.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(5, ALL_KINDS), st.integers(0, 1000))
def test_every_random_graph_is_written_or_refused(program: Program, number: int) -> None:
    graph = graph_of(program, *example(0))
    if classify(graph).pattern is Pattern.NONE:
        with pytest.raises(UnsupportedError, match="no family of kernels"):
            schedules(graph, DEVICE)
        return
    found = schedules(graph, DEVICE)
    assert lower(graph, found[number % len(found)]).kernels


PARTS_THAT_A_CUT_LEAVES_ALONE = OpProgram(
    (
        Drawn("logaddexp", mx.bfloat16, 0, 0, 0),
        Drawn("addmm", mx.bfloat16, 0, 0, 0),
        Drawn("logaddexp", mx.bool_, 0, 1, 0),
        Drawn("logaddexp", mx.bool_, 0, 0, 0),
        Drawn("logaddexp", mx.bool_, 4, 4, 0),
    )
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(op_programs(5), st.integers(0, 1000))
@shown_before(PARTS_THAT_A_CUT_LEAVES_ALONE, 0)
def test_every_region_of_any_ops_is_written(program: OpProgram, number: int) -> None:
    for region in partition(graph_of(program, *matrices(0))):
        assert legality(region).is_legal
        graph = region.extract()
        if classify(graph).pattern is not Pattern.NONE:
            found = schedules(graph, DEVICE)
            assert lower(graph, found[number % len(found)]).kernels
