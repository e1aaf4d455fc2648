"""The stages in their order, and that each finds what it needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.pipeline import PIPELINE, run_pipeline
from kernelwright.evaluator.stages.protocol import Context, Fact, PipelineStage
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.metal.device.base import DeviceInfo

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


def _context(workers: WorkerPool) -> Context:
    config = EvaluatorConfig(secret="s", through=Stage.CONFIRMATION)
    info = DeviceInfo(name="cuda", chip="c", runtime="r", measures_time=True)
    return Context(
        task_of("softmax"),
        bases()["softmax"].program,
        config,
        info,
        Verdict(),
        CaseSource(config, SuiteCache()),
        workers,
    )


def test_a_device_is_left_to_others_while_hidden_cases_are_drawn() -> None:
    said: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        said.append("taken")
        yield
        said.append("left")

    class Said(PipelineStage):
        uses_device = True

        def __init__(self, of: PipelineStage) -> None:
            self.name, self.pauses = of.name, of.pauses  # type: ignore[misc]

        def prepare(self, context: Context) -> None:
            said.append(f"{self.name} prepared")

        def run(self, context: Context) -> str:
            said.append(f"{self.name} run")
            return ""

    last = [Said(stage) for stage in PIPELINE[-3:]]
    run_pipeline(_context(WorkerPool("cuda", EvaluatorConfig(secret="s"), turn)), last)
    timing, hidden, confirmation = (stage.name for stage in last)
    assert said == [
        *(f"{timing} prepared", "taken", f"{timing} run", "left"),
        *(f"{hidden} prepared", f"{confirmation} prepared"),
        *("taken", f"{hidden} run", f"{confirmation} run", "left"),
    ]


@pytest.mark.parametrize("stage", PIPELINE[-2:], ids=lambda stage: stage.name)
def test_hidden_cases_are_drawn_before_the_device_is_taken(
    stage: PipelineStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(CaseSource, "hidden", lambda *arguments: drawn.append("hidden"))
    stage.prepare(_context(WorkerPool("cuda", EvaluatorConfig(secret="s"))))
    assert drawn == ["hidden"]
