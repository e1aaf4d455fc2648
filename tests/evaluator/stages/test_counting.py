"""What is counted is what was done: nothing hides in a threadgroup, behind a value or a build."""

from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.uneven import UnevenKernel, even_kernels, uneven_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages import counting
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import Counters
from kernelwright.metal.device.executable import RunResult
from kernelwright.metal.kernel import Kernel, Program, Tensor

CONFIG = EvaluatorConfig(secret="counting", through=Stage.CONFIRMATION)


@pytest.fixture(scope="module")
def strict() -> Iterator[Evaluator]:
    with Evaluator("simulator", CONFIG) as evaluator:
        yield evaluator


@pytest.mark.parametrize("kernel", list(even_kernels()), ids=lambda k: k.name)
@pytest.mark.sampled(2)
def test_even_work_is_promoted(strict: Evaluator, kernel: UnevenKernel) -> None:
    found = strict.evaluate(kernel.task, kernel.program)
    assert found.status is Status.PROMOTED, found.summary
    assert all(c.group_imbalance < 1.05 for c in found.counters)


@pytest.mark.parametrize("kernel", list(uneven_kernels()), ids=lambda k: k.name)
@pytest.mark.sampled(3)
def test_uneven_work_shows_in_the_time(strict: Evaluator, kernel: UnevenKernel) -> None:
    found = strict.evaluate(kernel.task, kernel.program)
    assert found.status is not Status.PROMOTED, found.summary
    assert found.status in (Status.CORRECT, Status.IMPLAUSIBLE, Status.UNPROVEN), found.summary


@pytest.mark.parametrize(
    ("build", "words"), [("sanitize", "under the sanitizer"), ("count", "while it is counted")]
)
def test_what_other_builds_give_is_judged(
    monkeypatch: pytest.MonkeyPatch, strict: Evaluator, build: str, words: str
) -> None:
    run = Trial.run

    def spoilt(
        trial: Trial,
        reference: Reference,
        *,
        seed: int = 0,
        sanitize: bool = False,
        count: bool = False,
        counts_all: bool = False,
        sampled_by: str = "",
        watch: bool = False,
    ) -> RunResult:
        result = run(
            trial,
            reference,
            seed=seed,
            sanitize=sanitize,
            count=count,
            counts_all=counts_all,
            sampled_by=sampled_by,
            watch=watch,
        )
        if {"sanitize": sanitize, "count": count}[build]:
            outputs = tuple(np.zeros_like(output) for output in result.outputs)
            return result.model_copy(update={"outputs": outputs})
        return result

    monkeypatch.setattr(Trial, "run", spoilt)
    found = strict.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert found.status is Status.WRONG
    assert f"right where it runs plainly, and wrong {words}" in found.summary


def test_too_few_counts_are_implausible(monkeypatch: pytest.MonkeyPatch, strict: Evaluator) -> None:
    run = Trial.run

    def undercounted(
        trial: Trial,
        reference: Reference,
        *,
        seed: int = 0,
        sanitize: bool = False,
        count: bool = False,
        counts_all: bool = False,
        sampled_by: str = "",
        watch: bool = False,
    ) -> RunResult:
        result = run(
            trial,
            reference,
            seed=seed,
            sanitize=sanitize,
            count=count,
            counts_all=counts_all,
            sampled_by=sampled_by,
            watch=watch,
        )
        counters = tuple(
            c.model_copy(
                update={
                    "buffers": tuple(
                        b.model_copy(update={"unique_bytes_read": b.unique_bytes_read // 2})
                        for b in c.buffers
                    )
                }
            )
            for c in result.counters
        )
        return result.model_copy(update={"counters": counters})

    monkeypatch.setattr(Trial, "run", undercounted)
    found = strict.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert found.status is Status.IMPLAUSIBLE
    assert found.stages[-1].stage is Stage.COUNT
    assert "where every right kernel needs" in found.summary


ERF = """\
uint i = thread_position_in_grid.x;
float v = x[i];
out[i] = metal::abs(v) > 1.0f ? metal::precise::exp(-v * v) : 1.0f - v * v;"""


def hump(x: mx.array) -> mx.array:
    return mx.where(mx.abs(x) > 1.0, mx.exp(-x * x), 1.0 - x * x)


@pytest.fixture(scope="module")
def parted() -> tuple[Task, Program]:
    """A program whose lanes part by the data, and what it computes."""
    task = Task(canonicalize(capture(hump, mx.zeros((1000,)))), "hump")
    kernel = Kernel(
        name="hump",
        inputs=("x",),
        outputs=("out",),
        source=ERF,
        grid=(1000, 1, 1),
        threadgroup=(32, 1, 1),
    )
    types = (Tensor(name="x", shape=(1000,), dtype=Dtype.FLOAT32),)
    outputs = (Tensor(name="out", shape=(1000,), dtype=Dtype.FLOAT32),)
    return task, Program(inputs=types, outputs=outputs, kernels=(kernel,))


def counted_by(secret: str, parted: tuple[Task, Program]) -> Evaluation:
    config = EvaluatorConfig(secret=secret, through=Stage.COUNT)
    with Evaluator("simulator", config) as evaluator:
        found = evaluator.evaluate(*parted)
    assert found.status is Status.CORRECT, found.summary
    return found


@pytest.fixture(scope="module")
def first(parted: tuple[Task, Program]) -> Evaluation:
    return counted_by("one", parted)


def test_a_program_has_one_predicted_time_whatever_the_secret(
    parted: tuple[Task, Program], first: Evaluation
) -> None:
    second = counted_by("two", parted)
    assert first.predicted_us == second.predicted_us
    assert first.counters == second.counters


def test_a_secret_draw_decides_where_it_takes_longer(
    monkeypatch: pytest.MonkeyPatch, parted: tuple[Task, Program], first: Evaluation
) -> None:
    count = counting.count_case

    def quick_where_known(
        trial: Trial, reference: Reference, most: int, sampled_by: str = ""
    ) -> tuple[Counters, ...]:
        found = count(trial, reference, most, sampled_by)
        barriers = 0 if sampled_by else 32 * 100
        return tuple(c.model_copy(update={"barriers": barriers}) for c in found)

    honest = first.predicted_us
    monkeypatch.setattr(counting, "count_case", quick_where_known)
    found = counted_by("one", parted)
    assert honest is not None
    assert found.predicted_us is not None
    assert found.predicted_us > 1.5 * honest
