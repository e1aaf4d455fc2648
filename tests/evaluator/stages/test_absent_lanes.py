"""What a lane that is not there holds decides no verdict, and one-sided roundings are refused."""

import pytest

from kernelwright.evaluator.attacks.corpus import Edit, apply, bases, task_of
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Status

ABSENT = {
    "a shuffle to the maximum": (
        "peak = simd_max(peak);",
        "peak = simd_max(peak); peak = metal::max(peak, simd_shuffle(peak, 32));",
    ),
    "a broadcast to the maximum": (
        "peak = simd_max(peak);",
        "peak = simd_max(peak); peak = metal::fmax(peak, simd_broadcast(peak, ushort(40)));",
    ),
    "a partner to the sum": (
        "total = simd_sum(total);",
        "total = simd_sum(total); total += simd_shuffle_xor(total, 32) > 0 ? 1e-3f : 0.0f;",
    ),
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_lane_beyond_the_simdgroup_is_never_right(evaluator: Evaluator, name: str) -> None:
    edit = {"name": "n", "class": "S4", "expect": ["unsafe"], "why": "", "replace": [ABSENT[name]]}
    program = apply(bases()["softmax"].program, Edit.model_validate(edit))
    found = evaluator.evaluate(task_of("softmax"), program)
    assert found.status is Status.UNSAFE, found.summary
    assert "a lane that its group does not have" in found.summary
