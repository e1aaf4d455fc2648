"""What is counted is what was done: nothing hides in a threadgroup, behind a value or a build."""

from collections.abc import Iterator

import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.uneven import UnevenKernel, even_kernels, uneven_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.metal.device.executable import RunResult

CONFIG = EvaluatorConfig(secret="counting", through=Stage.CONFIRMATION)


@pytest.fixture(scope="module")
def strict() -> Iterator[Evaluator]:
    with Evaluator("simulator", CONFIG) as evaluator:
        yield evaluator


@pytest.mark.parametrize("kernel", list(even_kernels()), ids=lambda k: k.name)
def test_even_work_is_promoted(strict: Evaluator, kernel: UnevenKernel) -> None:
    found = strict.evaluate(kernel.task, kernel.program)
    assert found.status is Status.PROMOTED, found.summary
    assert all(c.group_imbalance < 1.05 for c in found.counters)


@pytest.mark.parametrize("kernel", list(uneven_kernels()), ids=lambda k: k.name)
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
        watch: bool = False,
    ) -> RunResult:
        result = run(
            trial,
            reference,
            seed=seed,
            sanitize=sanitize,
            count=count,
            counts_all=counts_all,
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
        watch: bool = False,
    ) -> RunResult:
        result = run(
            trial,
            reference,
            seed=seed,
            sanitize=sanitize,
            count=count,
            counts_all=counts_all,
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
