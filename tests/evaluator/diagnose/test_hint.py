"""A wrong answer of a common kind comes with what to look at."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.evaluation import Evaluation, Status
from tests.evaluator.one_line import judge_line


def judged(value: str) -> Evaluation:
    return judge_line(lambda x: mx.maximum(x, 0), value)


@pytest.mark.parametrize("call", ["max(x[i], 0.0f)", "metal::fmax(x[i], 0.0f)"])
def test_what_drops_a_nan_is_named(call: str) -> None:
    found = judged(call)
    name = call.removeprefix("metal::").partition("(")[0]
    assert found.status is Status.WRONG
    assert found.summary.endswith(f"{name}() drops a NaN that MLX keeps: ask isnan() first.")


@pytest.mark.parametrize("value", ["x[i] > 0.0f ? x[i] : 0.0f", "max(x[i], 0.5f)"])
def test_what_is_wrong_otherwise_is_not_blamed_on_it(value: str) -> None:
    found = judged(value)
    assert found.status is Status.WRONG
    assert "drops a NaN" not in found.summary


def test_what_keeps_nan_is_right() -> None:
    assert judged("metal::isnan(x[i]) ? x[i] : max(x[i], 0.0f)").status is Status.CORRECT
