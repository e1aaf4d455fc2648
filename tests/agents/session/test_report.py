"""What `measure` says of where the time goes."""

from kernelwright.agents.session.tools.report import measure_report
from tests.agents.loopback.scene import DEVICE, correct


def measured(imbalance: float) -> str:
    right = correct()
    (counters,) = right.evaluation.counters
    uneven = counters.model_copy(update={"group_imbalance": imbalance})
    evaluation = right.evaluation.model_copy(update={"counters": (uneven,)})
    return measure_report(evaluation, right.proposal.program, DEVICE)


def test_a_threadgroup_with_more_work_than_the_others_is_a_part_of_the_time() -> None:
    assert "for the largest threadgroup alone" in measured(9.0)
    assert "for the largest threadgroup alone" not in measured(1.0)
