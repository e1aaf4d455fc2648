"""What nobody can judge is masked element by element, counted, and said."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.suite import LEAST_JUDGED, Suite, visible_suite
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture

CONFIG = EvaluatorConfig(secret="share")


def suite_of(function: Callable[[mx.array], mx.array], x: mx.array) -> Suite:
    task = Task(canonicalize(capture(function, x)), "task")
    return visible_suite(task, (), CONFIG)


def running_products(x: mx.array) -> mx.array:
    return mx.cumprod(x, axis=-1)


def bits(x: mx.array) -> mx.array:
    return x.view(mx.uint32)


def last_bits_of_a_sum(x: mx.array) -> mx.array:
    return (x * 1.7 + 0.1).view(mx.uint32) & 0xFF


def test_a_case_is_judged_in_part_where_roundings_decide_the_rest() -> None:
    suite = suite_of(running_products, mx.zeros((16, 64)))
    assert not suite.dropped
    assert suite.masked
    assert suite.is_proof
    assert suite.judged_share > LEAST_JUDGED
    assert all(not r.proves for r in suite.references if r.masked)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_bits_of_inputs_are_judged_to_the_last(dtype: mx.Dtype) -> None:
    unsigned = mx.uint32 if dtype == mx.float32 else mx.uint16
    suite = suite_of(lambda x: x.view(unsigned), mx.zeros((16, 64), dtype))
    assert suite.is_proof
    assert suite.judged_share == 1


def test_bits_of_what_is_rounded_once_are_judged_but_at_denormals() -> None:
    suite = suite_of(lambda x: (x * 2.5).view(mx.uint32), mx.zeros((16, 64)))
    assert suite.is_proof
    # Zeros count among those, and rows of padding hold many.
    assert suite.judged_share > 0.85


def test_what_hangs_on_the_last_bits_is_the_fault_of_the_task() -> None:
    suite = suite_of(last_bits_of_a_sum, mx.zeros((16, 64)))
    assert not suite.is_proof
    assert "one rounding may change" in suite.why_no_proof
    assert "leave it to MLX" in suite.why_no_proof


def test_the_trivial_answer_that_passes_is_named() -> None:
    suite = suite_of(lambda x: (x > 1) & (x < -1), mx.zeros((16, 64)))
    assert not suite.is_proof
    assert suite.why_no_proof.startswith("zeros would pass as output 0 in all ")
    assert "give it sizes, dtypes or ranges of inputs" in suite.why_no_proof


@pytest.mark.parametrize("kept_from_zero", [lambda noise: noise, lambda noise: noise + 1e-9])
def test_noise_of_a_sampler_is_drawn_between_zero_and_one(
    kept_from_zero: Callable[[mx.array], mx.array],
) -> None:
    def sampled(logits: mx.array, noise: mx.array) -> mx.array:
        gumbel = -mx.log(-mx.log(kept_from_zero(noise)))
        return mx.argmax(mx.log(mx.softmax(logits, axis=-1)) + gumbel, axis=-1)

    graph = canonicalize(capture(sampled, mx.zeros((4, 256)), mx.zeros((4, 256))))
    suite = visible_suite(Task(graph, "task"), (), CONFIG)
    assert suite.is_proof
    # NaN, the largest of any row, would hide what the others hold.
    assert len(suite.dropped) < len(suite.references) / 3
