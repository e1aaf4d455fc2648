"""The worker that a program is confirmed in is opened while the one before it is still at work."""

from collections.abc import Iterator

import pytest

from kernelwright.evaluator.attacks.corpus import bases
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.worker.process import Worker

PROGRAM = bases()["softmax"].program


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    opened = WorkerPool("simulator", EvaluatorConfig(secret="tests"))
    # As a GPU's worker, which no process succeeds.
    opened.trial(PROGRAM).worker.confinement = ("memory", "files")
    try:
        yield opened
    finally:
        opened.end()


def _opened_ahead(pool: WorkerPool) -> Worker:
    pool.open_ahead()
    opening = pool._next
    assert opening is not None
    return opening.result(60)[0]


def test_a_program_is_confirmed_in_the_worker_that_was_opened_ahead(pool: WorkerPool) -> None:
    before = pool.trial(PROGRAM).worker
    before.confinement = ("memory", "files")
    ahead = _opened_ahead(pool)
    assert before.is_alive
    trial = pool.trial_in_a_new_process(PROGRAM)
    assert trial.worker is ahead
    assert not before.is_alive
    assert pool.processes == (ahead.process,)


def test_a_worker_that_was_opened_for_nobody_is_closed(pool: WorkerPool) -> None:
    ahead = _opened_ahead(pool)
    pool.free_device()
    assert not ahead.is_alive
    assert len(pool.processes) == 1


def test_a_worker_whose_processes_succeed_each_other_is_not_replaced(pool: WorkerPool) -> None:
    pool.close()
    worker = pool.trial(PROGRAM).worker
    pool.open_ahead()
    assert pool.trial_in_a_new_process(PROGRAM).worker is worker
