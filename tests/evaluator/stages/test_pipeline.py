"""The stages in their order, and that each finds what it needs."""

from itertools import accumulate

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.pipeline import PIPELINE
from kernelwright.evaluator.stages.protocol import Context, Fact
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
