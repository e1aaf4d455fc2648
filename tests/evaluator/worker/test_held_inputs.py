"""Inputs that a worker has are not sent again."""

from collections.abc import Iterator

import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import Reference, judge, prepare
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.worker.held_inputs import HeldInputs
from kernelwright.evaluator.worker.process import Worker
from kernelwright.evaluator.worker.service import Run
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.passes.resize import free_dimensions, resize

MEMORY = 8 << 30


@pytest.fixture
def trial() -> Iterator[Trial]:
    pool = WorkerPool("simulator", EvaluatorConfig(secret="s"))
    yield pool.trial(bases()["softmax"].program)
    pool.end()


def case_of(rows: int) -> Reference:
    task = task_of("softmax")
    row = next(d for d in free_dimensions(task.graph) if not d.is_reduced)
    case = Case(resize(task.graph, row.axis_sizes(rows)), Distribution.NORMAL)
    return prepare(case, task.output_tolerances, "s")


def test_the_largest_inputs_are_sent_once(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, call = list[bool](), Worker.call

    def spy(worker: Worker, request: object, timeout_s: float) -> Reply:
        if isinstance(request, Run):
            sent.append(request.inputs is not None)
        return call(worker, request, timeout_s)

    monkeypatch.setattr(Worker, "call", spy)
    large, small, smaller = case_of(40), case_of(5), case_of(3)
    order = [large, small, large, small, smaller, small, large]
    results = [trial.run(reference) for reference in order]
    assert sent == [True, True, False, False, True, True, False]
    for reference, result in zip(order, results, strict=True):
        assert all(d.is_acceptable for d in judge(reference, result.outputs))


def test_a_larger_set_takes_the_place_of_the_largest() -> None:
    held, small, large = HeldInputs(MEMORY), [np.zeros(4)], [np.zeros(8)]
    assert held.shelf_for(small) == "largest"
    held.put("largest", small)
    assert held.shelf_for(large) == "largest"
    held.put("largest", large)
    assert held.shelf_for(small) == "latest"
    assert held.shelf_with(small) is None
    assert held.shelf_with(large) == "largest"


def test_equal_inputs_of_another_case_are_sent() -> None:
    held = HeldInputs(MEMORY)
    held.put("latest", [np.zeros(4)])
    assert held.shelf_with([np.zeros(4)]) is None


def test_what_takes_much_of_the_memory_does_not_stay() -> None:
    held = HeldInputs(memory_bytes=100)
    assert held.shelf_for([np.zeros(4)]) == "latest"


def test_nobody_knows_what_a_renewed_worker_has() -> None:
    held, inputs = HeldInputs(MEMORY), [np.zeros(4)]
    held.put("largest", inputs)
    held.forget()
    assert held.shelf_with(inputs) is None
