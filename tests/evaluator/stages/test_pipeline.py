"""The stages in their order, and that each finds what it needs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from threading import get_ident

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.oracle.accuracy import Deviation
from kernelwright.evaluator.oracle.reference import Reference, judge
from kernelwright.evaluator.stages import trial
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.pipeline import PIPELINE
from kernelwright.evaluator.stages.protocol import Context, Fact
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.worker.process import Worker
from kernelwright.evaluator.worker.service import Request
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array

_FACTS = {name for name, value in vars(Context).items() if isinstance(value, Fact)}


def test_the_pipeline_has_every_stage_in_the_order_of_their_names() -> None:
    assert [stage.name for stage in PIPELINE] == list(Stage)


def test_each_stage_needs_only_what_earlier_ones_give() -> None:
    empty: frozenset[str] = frozenset()
    given = accumulate((stage.gives for stage in PIPELINE), frozenset.union, initial=empty)
    for stage, before in zip(PIPELINE, given, strict=False):
        assert stage.needs <= before, f"{stage.name} needs {stage.needs - before}"
        assert stage.needs | stage.gives <= _FACTS


@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_says_what_it_claims(stage: Stage) -> None:
    assert stage.claim


def test_a_fact_that_no_stage_has_given_is_our_mistake() -> None:
    config = EvaluatorConfig(secret="s")
    info = DeviceInfo(name="simulator", chip="c", runtime="r", measures_time=False)
    context = Context(
        task_of("softmax"),
        bases()["softmax"].program,
        config,
        info,
        Verdict(),
        CaseSource(config, SuiteCache()),
        WorkerPool("simulator", config),
    )
    with pytest.raises(RuntimeError, match="expected an earlier stage to give 'right'"):
        _ = context.right


def test_a_device_is_left_to_others_while_the_host_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is sent to the worker for the device has its turn; nothing else keeps one."""
    held, sent = [0], list[tuple[str, bool]]()

    @contextmanager
    def turn(*, alone: bool) -> Iterator[None]:
        assert not alone, "nothing is timed here"
        assert not held[0]
        held[0] = get_ident()
        yield
        held[0] = 0

    call, judged = Worker.call, list[bool]()

    def watched(self: Worker, request: Request, timeout_s: float) -> Reply:
        sent.append((type(request).__name__, bool(held[0])))
        return call(self, request, timeout_s)

    def judging(reference: Reference, outputs: Sequence[Array]) -> tuple[Deviation, ...]:
        # Another thread may have the turn of the next case.
        judged.append(held[0] == get_ident())
        return judge(reference, outputs)

    monkeypatch.setattr(Worker, "call", watched)
    monkeypatch.setattr(trial, "judge", judging)
    config = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)
    with Evaluator("simulator", config, turn=turn) as evaluator:
        verdict = evaluator.evaluate(task_of("softmax"), bases()["softmax"].program)
    assert verdict.status is Status.CORRECT
    assert judged
    assert not any(judged)
    assert {held for name, held in sent if name in ("Run", "RunParts")} == {True}
    assert {held for name, held in sent if name.startswith("Compile")} == {False}
