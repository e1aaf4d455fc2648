"""What a program is judged on later is drawn while it is judged on what is there."""

from collections.abc import Sequence
from typing import cast

import pytest

from kernelwright.evaluator.attacks.corpus import apply, bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.stages import case_source
from kernelwright.evaluator.stages.case_source import CaseSource

_NAME = "softmax"
_TASK, _PROGRAM = task_of(_NAME), bases()[_NAME].program
_ALL = EvaluatorConfig(secret="ahead", through=Stage.CONFIRMATION, case_elements=1)
_TIMED = _ALL.model_copy(update={"through": Stage.TIMING})
_GATED = _ALL.model_copy(update={"through": Stage.HIDDEN})
_SMALL = _ALL.model_copy(update={"case_elements": _TASK.graph.element_count})
_COMMON, _HIDDEN, _FRESH = "common", "hidden", "confirmation"


class _Cases:
    """As many bytes as a test says."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is drawn, as it is begun; all of it at once."""
    sets: list[str] = []

    def hidden(self: CaseSource, task: object, program: object, purpose: str = _HIDDEN) -> None:
        sets.append(purpose)

    monkeypatch.setattr(CaseSource, "common", lambda *_: sets.append(_COMMON))
    monkeypatch.setattr(CaseSource, "hidden", hidden)
    monkeypatch.setattr(case_source, "begin_ahead", lambda work: work())
    return sets


@pytest.mark.parametrize(
    ("config", "is_shared", "wanted"),
    [
        (_ALL, False, [_COMMON, _HIDDEN, _FRESH]),
        (_GATED, False, [_COMMON, _HIDDEN]),
        (_TIMED, False, [_COMMON]),
        (_TIMED, True, [_COMMON, _HIDDEN, _FRESH]),
        (_SMALL, True, []),
    ],
)
def test_what_later_stages_ask_for_is_drawn_in_their_order(
    drawn: list[str], config: EvaluatorConfig, is_shared: bool, wanted: Sequence[str]
) -> None:
    cases = CaseSource(config, SuiteCache(), draws_ahead=is_shared)
    cases.draw_later_ahead(_TASK, _PROGRAM, cast("Suite", _Cases(1)), lambda: False)
    assert drawn == wanted


def test_nothing_more_is_drawn_for_a_program_that_was_refused(drawn: list[str]) -> None:
    seen = cast("Suite", _Cases(1))
    CaseSource(_ALL, SuiteCache()).draw_later_ahead(_TASK, _PROGRAM, seen, lambda: bool(drawn))
    assert drawn == [_COMMON]


def test_only_what_can_be_kept_is_drawn_ahead(
    drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.evaluator.inputs.suite_cache.memory_bytes", lambda: 1600)
    for nbytes in (101, 100):
        assert not drawn
        seen = cast("Suite", _Cases(nbytes))
        CaseSource(_ALL, SuiteCache()).draw_later_ahead(_TASK, _PROGRAM, seen, lambda: False)
    assert drawn


def test_it_is_begun_for_a_program_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Suite] = []
    monkeypatch.setattr(
        CaseSource, "draw_later_ahead", lambda self, task, program, seen, _: begun.append(seen)
    )
    base, task = bases()["tiny"], task_of("tiny")
    wrong = next(edit for edit in base.mutant if Status.WRONG in edit.expect)
    config = EvaluatorConfig(secret="ahead", through=Stage.CORRECTNESS)
    with Evaluator("simulator", config) as evaluator:
        assert evaluator.evaluate(task, apply(base.program, wrong)).status is Status.WRONG
        assert not begun
        assert evaluator.evaluate(task, base.program).status is Status.CORRECT
        assert len(begun) == 1
