"""Evaluations go where most seconds can still be saved."""

from kernelwright.agents.protocols import Proposal
from kernelwright.campaign import capture_subjects, load_subjects
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.search.priority import SecondsToSave, chance
from kernelwright.search.task_search import TaskSearch
from tests.campaign.scripted import INFO, proposal


def search_of(type_: str, name: str) -> TaskSearch:
    (function,) = capture_subjects(load_subjects("catalog:softmax", [type_])).functions
    return TaskSearch(Task(function.graph, name), "softmax")


def judge(search: TaskSearch, script: str, *, us: float | None, seconds: float = 1.0) -> TaskSearch:
    """Let a candidate be tried; without a time it is wrong."""
    tried: Proposal = proposal(search.task, f"{script} {len(search.history)}")
    verdict = Evaluation(
        task=search.task.fingerprint,
        program=tried.program.id,
        device=INFO,
        status=Status.WRONG if us is None else Status.CORRECT,
        summary="",
        predicted_us=us,
        duration_s=seconds,
    )
    search.begin([tried])
    search.judged(tried.program.id, verdict, reused=False)
    search.advance(to_the_end=True)
    return search


def test_the_larger_task_comes_first_unless_its_function_weighs_less() -> None:
    small, large = search_of("f32[8,8]", "small"), search_of("f32[640,640]", "large")
    assert list(SecondsToSave()([small, large], INFO)) == [large, small]
    assert list(SecondsToSave({"small": 1e6})([small, large], INFO)) == [small, large]


def test_a_task_that_is_called_often_comes_before_one_of_its_size() -> None:
    once, often = search_of("f32[64,64]", "once"), search_of("f32[64,65]", "often")
    often.calls = 20
    assert SecondsToSave()([once, often], INFO)[0] is often


def test_a_task_near_its_floor_gives_way_to_one_far_above_it() -> None:
    done = judge(search_of("f32[1024,1024]", "done"), "a", us=40.0)
    far = judge(search_of("f32[1024,1024]", "far"), "a", us=400.0)
    assert SecondsToSave()([done, far], INFO)[0] is far


def test_a_slow_evaluation_makes_a_task_worth_less() -> None:
    slow = judge(search_of("f32[512,512]", "slow"), "a", us=90.0, seconds=60.0)
    quick = judge(search_of("f32[512,512]", "quick"), "a", us=90.0, seconds=1.0)
    assert SecondsToSave()([slow, quick], INFO)[0] is quick


def test_the_chance_falls_with_what_did_not_gain_and_rises_with_a_gain() -> None:
    search = search_of("f32[64,64]", "a")
    times = (9.0, 10.0, None, 11.0)
    chances = [chance(search), *(chance(judge(search, "a", us=us)) for us in times)]
    assert chances[0] == chances[1] == 1.0
    assert chances[1] > chances[2] > chances[3] > chances[4]
    assert chance(judge(search, "b", us=5.0)) > chances[4]
