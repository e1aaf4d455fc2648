"""What `measure` says of where the time goes."""

from kernelwright.agents.session.tools.report import check_report, measure_report
from kernelwright.evaluator.evaluation import InputValue
from kernelwright.metal.device.base import LineCost
from tests.agents.loopback.scene import DEVICE, correct, wrong_at_the_tail


def measured(imbalance: float) -> str:
    right = correct()
    (counters,) = right.evaluation.counters
    uneven = counters.model_copy(update={"group_imbalance": imbalance})
    evaluation = right.evaluation.model_copy(update={"counters": (uneven,)})
    return measure_report(evaluation, right.proposal.program, DEVICE)


def test_a_threadgroup_with_more_work_than_the_others_is_a_part_of_the_time() -> None:
    assert "for the largest threadgroup alone" in measured(9.0)
    assert "for the largest threadgroup alone" not in measured(1.0)


def test_the_lines_that_take_most_are_told_with_what_they_take() -> None:
    right = correct()
    (counters,) = right.evaluation.counters
    moved = sum(buffer.sectors_read + buffer.sectors_written for buffer in counters.buffers)
    costly = counters.model_copy(
        update={
            "float_operations": 300,
            "special_operations": 0,
            "integer_operations": 100,
            "bank_conflicts": 8,
            "lines": (
                LineCost(file="source", line=2, sectors=(("x", moved // 2),), operations=300),
                LineCost(file="source", line=1, bank_conflicts=8),
                LineCost(file="source", line=99, operations=300),
            ),
        }
    )
    evaluation = right.evaluation.model_copy(update={"counters": (costly,)})
    told = measure_report(evaluation, right.proposal.program, DEVICE)
    share = f"{moved // 2 / moved:.0%}"
    assert (
        f"  source:2: {share} of the sectors ({moved // 2} of x), 75% of the operations\n" in told
    )
    assert "      out[i] = x[i] * 2.0f + 1.0f;" in told
    assert "  source:1: 100% of the bank conflicts\n" in told
    assert "source:99" not in told


def test_a_wrong_element_is_told_with_the_inputs_that_led_there() -> None:
    wrong = wrong_at_the_tail()
    (mismatch,) = wrong.evaluation.mismatches
    held = mismatch.model_copy(update={"inputs": (InputValue(input=0, index=(0, 4), value=1.25),)})
    evaluation = wrong.evaluation.model_copy(update={"mismatches": (held,)})
    told = check_report(evaluation, wrong.proposal.program)
    assert "out[0, 4] should be 3.5, found nan, where x[0, 4] is 1.25." in told
