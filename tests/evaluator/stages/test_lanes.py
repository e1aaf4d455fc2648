"""Stages beside each other: what overlaps, and that the verdict is that of one after the other."""

from collections.abc import Callable, Iterator
from threading import Barrier, Event

import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.facts import Superseded
from kernelwright.evaluator.stages.lanes import run_side_by_side
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.metal.device.base import DeviceInfo

PATIENCE_S = 20.0
"""Beyond what a busy machine takes; whoever waits so long waits for something that never comes."""
Work = Callable[[Context], object]


class Scripted(PipelineStage):
    """A stage that does as it is told."""

    def __init__(self, name: Stage, work: Work, gives: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.gives = gives  # type: ignore[misc]
        self._work = work

    def run(self, context: Context) -> str:
        """Do it."""
        self._work(context)
        return ""


@pytest.fixture
def context() -> Iterator[Context]:
    config = EvaluatorConfig(secret="s", through=Stage.CONFIRMATION)
    workers = WorkerPool("simulator", config)
    info = DeviceInfo(name="cuda", chip="c", runtime="r", measures_time=True)
    cases = CaseSource(config, SuiteCache())
    program = bases()["softmax"].program
    yield Context(task_of("softmax"), program, config, info, Verdict(), cases, workers)
    workers.end()


def passing(context: Context) -> None:
    """Let a program pass at once."""


def meets(barrier: Barrier) -> Work:
    return lambda context: barrier.wait(PATIENCE_S)


def refuses(status: Status, after: Event | None = None) -> Work:
    def refuse(context: Context) -> None:
        assert after is None or after.wait(PATIENCE_S)
        raise Failure(status, f"refused as {status}")

    return refuse


def stages(**work: Work) -> list[Scripted]:
    """Return all stages of the lanes; those that are not named pass at once."""
    made = {stage.name: work.get(stage.name, passing) for stage in list(Stage)[1:]}
    assert set(work) <= set(made)
    return [Scripted(Stage[name], one) for name, one in made.items()]


def refusal(context: Context, script: list[Scripted]) -> Failure:
    with pytest.raises(Failure) as caught:
        run_side_by_side(context, script)
    return caught.value


@pytest.mark.parametrize(
    "together",
    [
        ("SANITIZE", "CORRECTNESS", "CONFIRMATION"),
        ("COVERAGE", "DETERMINISM"),
        ("COUNT", "TIMING"),
        ("HIDDEN", "CONFIRMATION"),
    ],
)
def test_stages_that_share_no_device_run_at_once(
    context: Context, together: tuple[str, ...]
) -> None:
    barrier = Barrier(len(together))
    run_side_by_side(context, stages(**dict.fromkeys(together, meets(barrier))))
    assert not barrier.broken


def test_stages_are_told_of_in_the_order_of_the_protocol(context: Context) -> None:
    counted = Event()
    script = stages(
        CORRECTNESS=lambda context: counted.wait(PATIENCE_S), COUNT=lambda context: counted.set()
    )
    run_side_by_side(context, script)
    assert [result.stage for result in context.verdict.stages] == list(Stage)[1:]


@pytest.mark.parametrize(
    ("first", "later"),
    [("SANITIZE", "CORRECTNESS"), ("CORRECTNESS", "COVERAGE"), ("ALLCLOSE", "TIMING")],
)
def test_the_first_stage_that_refuses_names_the_verdict_however_late_it_does(
    context: Context, first: str, later: str
) -> None:
    later_refused = Event()

    def refuse_first(context: Context) -> None:
        later_refused.set()
        raise Failure(Status.TIMEOUT, "later")

    script = stages(**{first: refuses(Status.WRONG, later_refused), later: refuse_first})
    assert refusal(context, script).status is Status.WRONG
    told = [result.stage for result in context.verdict.stages]
    assert told == list(Stage)[1 : list(Stage).index(Stage[first]) + 1]


def test_a_stage_that_waits_for_what_a_refused_one_would_give_ends_with_it(
    context: Context,
) -> None:
    def read(context: Context) -> None:
        _ = context.right

    script = stages(DETERMINISM=read)
    place = next(i for i, s in enumerate(script) if s.name is Stage.CORRECTNESS)
    script[place] = Scripted(Stage.CORRECTNESS, refuses(Status.WRONG), frozenset({"right"}))
    assert refusal(context, script).status is Status.WRONG


def test_a_stage_finds_what_another_lane_gives_while_it_waits(context: Context) -> None:
    found: list[object] = []
    waiting = Event()

    def give(context: Context) -> None:
        assert waiting.wait(PATIENCE_S)
        context.raced = True

    def read(context: Context) -> None:
        waiting.set()
        found.append(context.raced)

    script = stages(CONFIRMATION=read)
    place = next(i for i, s in enumerate(script) if s.name is Stage.TIMING)
    script[place] = Scripted(Stage.TIMING, give, frozenset({"raced"}))
    run_side_by_side(context, script)
    assert found == [True]


def test_later_stages_stop_at_their_next_request_and_leave_the_simulator(context: Context) -> None:
    begun, stopped = Event(), list[bool]()

    def cover(context: Context) -> None:
        begun.set()
        assert context.workers.halt("simulator").wait(PATIENCE_S)
        stopped.append(True)
        raise Superseded

    def refuse(context: Context) -> None:
        assert begun.wait(PATIENCE_S)
        context.end_later_stages(Stage.CORRECTNESS)
        assert stopped, "the simulator is still at work"
        assert not context.workers.halt("simulator").is_set(), "nothing may be asked there now"
        raise Failure(Status.WRONG, "wrong")

    script = stages(COVERAGE=cover, CORRECTNESS=refuse)
    assert refusal(context, script).status is Status.WRONG
    assert stopped


def test_what_a_later_stage_found_is_forgotten(context: Context) -> None:
    counted = Event()

    def count(context: Context) -> None:
        context.verdict.predicted_us = 1.0
        counted.set()

    script = stages(COUNT=count, CORRECTNESS=refuses(Status.WRONG, counted))
    assert refusal(context, script).status is Status.WRONG
    assert context.verdict.predicted_us is None


def test_a_program_that_strays_keeps_no_gpu(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, running = Event(), Event()
    monkeypatch.setattr(context.workers, "kill_device", killed.set)

    def hang(context: Context) -> None:
        running.set()
        assert killed.wait(PATIENCE_S), "it hangs until its process is ended"

    script = stages(CORRECTNESS=hang, SANITIZE=refuses(Status.UNSAFE, running))
    assert refusal(context, script).status is Status.UNSAFE


def test_a_machine_that_fails_beside_an_earlier_refusal_does_not_hide_it(context: Context) -> None:
    failed = Event()

    def fail(context: Context) -> None:
        failed.set()
        raise DeviceError("the machine failed.")

    script = stages(COVERAGE=fail, CORRECTNESS=refuses(Status.WRONG, failed))
    assert refusal(context, script).status is Status.WRONG
    with pytest.raises(DeviceError, match="the machine failed"):
        run_side_by_side(context, stages(COVERAGE=fail))
