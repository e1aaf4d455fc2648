"""The search loop keeps what it acknowledged, repeats nothing and ends in order."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import mlx.core as mx
import pytest

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.campaign import (
    Engine,
    SearchReport,
    SearchSpec,
    Subject,
    Team,
    capture_subjects,
)
from kernelwright.campaign.event import (
    CampaignBegan,
    CandidateConfirmed,
    CandidateJudged,
    Event,
    FunctionRefused,
    TaskEnded,
)
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore
from tests.campaign import scripted
from tests.campaign.scripted import ScriptedCoder, ScriptedJudge, subjects, team


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


def test_the_quickest_correct_candidate_wins_each_task(store: KernelStore) -> None:
    report, _, _ = _search(store)
    assert {c.rank.value for c in store.best()} == {2.0}
    assert [(t.name, t.tried, t.failures) for t in report.tasks] == [
        ("norm", 9, {Status.WRONG: 3, Status.COMPILE_ERROR: 1}),
        ("softmax", 9, {Status.WRONG: 3, Status.COMPILE_ERROR: 1}),
    ]


def test_a_failure_is_repaired_as_often_as_allowed(store: KernelStore) -> None:
    _, judge, _ = _search(store, SearchSpec(repairs=1))
    assert "norm wrong again" in judge.asked
    assert "norm wrong again again" not in judge.asked


def test_the_same_search_again_evaluates_nothing(store: KernelStore) -> None:
    first, _, _ = _search(store)
    second, judge, events = _search(store)
    assert judge.asked == judge.confirmed == []
    assert second.evaluated == 0
    assert [t.reused for t in second.tasks] == [t.tried for t in first.tasks]
    assert all(e.reused for e in events if isinstance(e, CandidateJudged))
    assert [t.champion_id for t in second.tasks] == [t.champion_id for t in first.tasks]


def test_a_function_at_other_inputs_is_another_search(store: KernelStore) -> None:
    def doubled(x: mx.array) -> mx.array:
        return x * 2

    def at(rows: int) -> Subject:
        return Subject("doubled", doubled, (mx.zeros((rows, 64)),), {}, "x.py")

    for evaluations, rows in ((1, 4), (9, 8), (9, 4)):
        _search(store, SearchSpec(evaluations=evaluations), of=(at(rows),))
    again, other, first = store.campaigns()
    assert (other.root_id, again.root_id) == (other.id, first.root_id)


def test_a_leader_that_does_not_survive_gives_way_to_the_next(store: KernelStore) -> None:
    judge = ScriptedJudge(fragile=frozenset({"correct 2", "correct 3"}))
    report, _, _ = _search(store, judge=judge)
    assert [q for q in judge.confirmed if q.startswith("norm")] == [
        "norm correct 2",
        "norm correct 3",
        "norm correct 5",
    ]
    assert {c.rank.value for c in store.best()} == {5.0}
    assert [task.refuted for task in report.tasks] == [2, 2]


def test_what_was_refuted_is_known_the_next_time(store: KernelStore) -> None:
    fragile = frozenset({"correct 2"})
    _search(store, judge=ScriptedJudge(fragile=fragile))
    _, judge, _ = _search(store, judge=ScriptedJudge(fragile=fragile))
    assert judge.asked == judge.confirmed == []
    assert {c.rank.value for c in store.best()} == {3.0}


def test_a_task_whose_leaders_all_fail_stays_with_mlx(store: KernelStore) -> None:
    fragile = frozenset(f"correct {n}" for n in range(10))
    report, judge, _ = _search(store, judge=ScriptedJudge(fragile=fragile))
    assert store.best() == ()
    assert [task.champion_id for task in report.tasks] == [None, None]
    assert len(judge.confirmed) == 6


def test_a_timeout_is_tried_again_the_next_time(store: KernelStore) -> None:
    coder = ScriptedCoder(("timeout", "correct 4"))
    _search(store, coder=coder)
    _, judge, _ = _search(store, coder=coder)
    assert Counter(judge.asked) == Counter({"norm timeout": 2, "softmax timeout": 2})


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_is_proposed_does_not_depend_on_the_workers(store: KernelStore, jobs: int) -> None:
    _, judge, _ = _search(store, SearchSpec(jobs=jobs))
    assert sorted(judge.asked) == sorted(_expected_questions())


def test_a_cap_on_evaluations_holds_and_the_next_search_goes_on(store: KernelStore) -> None:
    first, judge, _ = _search(store, SearchSpec(evaluations=5))
    assert len(judge.asked) == first.evaluated == 5
    assert "5 evaluations" in first.ended.reason
    _, again, _ = _search(store)
    assert len(again.asked) == 18 - 5


def test_a_cap_on_time_ends_the_search(store: KernelStore) -> None:
    report, _, _ = _search(store, SearchSpec(seconds=1e-9))
    assert report.evaluated == 0
    assert report.ended.reason == report.ended.cap
    assert "is reached" in report.ended.cap


def test_what_runs_long_after_the_time_is_up_is_cut_off(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.campaign.execution.run_control._OVERTIME_S", 0.1)
    go = threading.Event()

    class Stuck(ScriptedJudge):
        def close(self) -> None:
            super().close()
            go.set()

    spec = SearchSpec(jobs=1, seconds=0.5, candidates_per_task=1)
    engine = Engine(store, spec, team(), lambda: Stuck(before=go))
    report = engine.run(capture_subjects(subjects()[:1]))
    assert (report.ended.capped, store.campaigns()[0].state) == (True, "capped")
    assert store.statistics().rows["evaluation"] == 0


def test_planning_ends_with_the_time(store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.campaign.execution.run_control._OVERTIME_S", 0.1)
    go = threading.Event()
    monkeypatch.setattr(
        "kernelwright.campaign.execution.function_cutting.plan_function", lambda *given: go.wait()
    )
    engine = Engine(store, SearchSpec(seconds=0.2), team(), ScriptedJudge)
    report = engine.run(capture_subjects(subjects()[:1]))
    go.set()
    assert (report.ended.capped, report.tasks) == (True, ())
    assert "is reached" in report.ended.reason


def test_stop_records_what_runs_and_begins_nothing_new(store: KernelStore) -> None:
    go = threading.Event()
    judge = ScriptedJudge(before=go)
    engine = Engine(store, SearchSpec(jobs=2), team(), lambda: judge)
    reports: list[SearchReport] = []
    thread = threading.Thread(
        target=lambda: reports.append(engine.run(capture_subjects(subjects())))
    )
    thread.start()
    while store.statistics().rows["trial"] < 2:
        pass
    engine.stop()
    go.set()
    thread.join(10)
    assert reports[0].ended.interrupted
    assert store.campaigns()[0].state == "interrupted"
    assert store.statistics().rows["evaluation"] == len(judge.asked) <= 2


def test_stop_does_not_wait_for_a_stuck_worker(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.campaign.execution.run_control.GRACE_S", 0.1)

    class Stuck(ScriptedJudge):
        def close(self) -> None:
            super().close()
            go.set()

    go = threading.Event()
    engine = Engine(store, SearchSpec(jobs=1), team(), lambda: Stuck(before=go))
    threading.Timer(0.5, engine.stop).start()
    report = engine.run(capture_subjects(subjects()))
    assert report.ended.interrupted
    assert store.statistics().rows["evaluation"] == 0


def test_killed_at_any_write_the_search_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    url = str(tmp_path / "killed.db")
    for writes, when in ((4, "after"), (9, "before"), (17, "after"), (30, "before")):
        done = subprocess.run(
            [sys.executable, scripted.__file__, url, str(writes), when],
            cwd=Path(__file__).parents[3],
            env={"PYTHONPATH": str(Path(__file__).parents[3])},
            check=False,
        )
        assert done.returncode == -9
    with KernelStore(url) as killed, KernelStore(str(tmp_path / "calm.db")) as calm:
        survivor, _, _ = _search(killed)
        undisturbed, _, _ = _search(calm)
        rows = killed.statistics().rows
        assert [t.champion_id for t in survivor.tasks] == [t.champion_id for t in undisturbed.tasks]
        assert _screened(killed) == _screened(calm)
        assert rows["candidate"] == calm.statistics().rows["candidate"]


def _screened(store: KernelStore) -> int:
    """Count verdicts but those of confirmations: which leaders an idle judge meets is chance."""
    logs = [store.events(c.id, kinds=("CandidateConfirmed",)) for c in store.campaigns()]
    confirmed = [event.read(CandidateConfirmed) for log in logs for event in log]
    return store.statistics().rows["evaluation"] - sum(not event.reused for event in confirmed)


def test_equal_functions_share_one_task(store: KernelStore) -> None:
    twice = (*subjects(), Subject("again", scripted.softmax, (mx.zeros((4, 8)),), {}, "x.py"))
    report, judge, _ = _search(store, of=twice)
    assert len(report.tasks) == 2
    assert report.functions[2].task_ids == report.functions[1].task_ids
    assert not any(question.startswith("again") for question in judge.asked)


def test_a_function_that_cannot_be_captured_does_not_stop_the_others(store: KernelStore) -> None:
    report, _, events = _search(store, of=(_data_dependent(), *subjects()))
    assert [f.function for f in report.functions] == ["norm", "softmax"]
    assert "looks at the values" in next(e for e in events if isinstance(e, FunctionRefused)).reason


def test_nothing_is_recorded_when_no_function_can_be_captured(store: KernelStore) -> None:
    with pytest.raises(InputError, match="looks at the values of an array while it is traced"):
        _search(store, of=(_data_dependent(),))
    assert store.statistics().rows["campaign"] == 0


def test_a_task_without_template_stays_with_mlx(store: KernelStore) -> None:
    report, _, events = _search(store, coder=ScriptedCoder(()))
    assert [t.champion_id for t in report.tasks] == [None, None]
    ended = [e.reason for e in events if isinstance(e, TaskEnded)]
    assert ended == ["no template fits it yet; MLX keeps it"] * 2


def test_a_device_that_does_not_open_ends_the_search_in_a_sentence(store: KernelStore) -> None:
    def broken() -> ScriptedJudge:
        raise DeviceError("the driver is gone.")

    with pytest.raises(DeviceError, match="the driver is gone"):
        Engine(store, SearchSpec(), team(), broken).run(capture_subjects(subjects()))
    assert store.campaigns() == ()


def test_every_judge_is_closed(store: KernelStore) -> None:
    judges: list[ScriptedJudge] = []

    def make() -> ScriptedJudge:
        judges.append(ScriptedJudge())
        return judges[-1]

    Engine(store, SearchSpec(jobs=3), team(), make).run(capture_subjects(subjects()))
    assert all(judge.closed for judge in judges)


def _search(
    store: KernelStore,
    spec: SearchSpec | None = None,
    *,
    coder: ScriptedCoder | None = None,
    of: tuple[Subject, ...] | None = None,
    judge: ScriptedJudge | None = None,
) -> tuple[SearchReport, ScriptedJudge, list[Event]]:
    judge = judge or ScriptedJudge()
    events: list[Event] = []
    engine = Engine(
        store, spec or SearchSpec(), team(coder), lambda: judge, RunSettings(listen=events.append)
    )
    return engine.run(capture_subjects(of or subjects())), judge, events


def _data_dependent() -> Subject:
    def peek(x: mx.array) -> mx.array:
        return x if bool(x.sum() > 0) else -x

    return Subject("peek", peek, (mx.zeros((2,)),), {}, "x.py")


def _expected_questions() -> list[str]:
    scripts = (
        *ScriptedCoder().scripts,
        "correct 2",
        "wrong again",
        "wrong again again",
    )
    return [f"{name} {script}" for name in ("norm", "softmax") for script in scripts]


def test_one_task_keeps_sixteen_workers_busy(store: KernelStore) -> None:
    meeting = threading.Barrier(16, timeout=120)

    class Meeting(ScriptedJudge):
        def evaluate(self, task: Task, program: Program) -> Evaluation:
            # Passes once sixteen candidates of the one task are evaluated at the same time.
            meeting.wait()
            return super().evaluate(task, program)

    scripts = [f"correct {i}" for i in range(100, 132)]
    spec = SearchSpec(jobs=16, candidates_per_task=32, patience=99)
    engine = Engine(store, spec, team(ScriptedCoder(scripts)), Meeting)
    report = engine.run(capture_subjects(subjects()[:1]))
    assert report.evaluated == 32
    assert not meeting.broken


def test_a_repeat_that_is_cut_short_shows_what_the_store_knows(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        first = Engine(store, SearchSpec(), team(), ScriptedJudge).run(capture_subjects(subjects()))

        def listen(event: Event) -> None:
            if isinstance(event, CampaignBegan):
                engine.stop()

        engine = Engine(store, SearchSpec(), team(), ScriptedJudge, RunSettings(listen=listen))
        again = engine.run(capture_subjects(subjects()))
    assert again.ended.interrupted
    assert all(task.champion_id for task in first.tasks)
    known = {t.task_id: (t.champion_id, t.gain) for t in first.tasks}
    assert {t.task_id: (t.champion_id, t.gain) for t in again.tasks} == known


def test_what_is_proposed_judged_and_confirmed_is_in_the_log(store: KernelStore) -> None:
    _, _, heard = _search(store)
    kinds = ("CandidateProposed", "CandidateJudged", "CandidateConfirmed")
    logged = store.events(store.campaigns()[0].id, kinds=kinds)
    assert [event.body for event in logged] == [
        event.model_dump_json() for event in heard if type(event).__name__ in kinds
    ]
    assert {event.kind for event in logged} == set(kinds)


def test_a_search_that_goes_on_sees_the_verdicts_that_the_first_run_saw(
    store: KernelStore,
) -> None:
    class Repairing(scripted.ScriptedRepairer):
        asked: ClassVar[list[str]] = []

        def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
            self.asked.append(failed.proposal.idea)
            return super().repair(task, device, failed)

    def run() -> list[str]:
        Repairing.asked.clear()
        judge = ScriptedJudge(fragile=frozenset({"correct 2"}))
        parts = Team(planner=scripted.WholePlanner(), coder=ScriptedCoder(), repairer=Repairing())
        Engine(store, SearchSpec(), parts, lambda: judge).run(capture_subjects(subjects()))
        return sorted(Repairing.asked)

    first = run()
    assert "correct 2" not in first
    # What was refuted by its confirmation was right as far as proposals know.
    assert run() == first


def test_a_leader_is_confirmed_while_another_candidate_is_still_judged(store: KernelStore) -> None:
    confirmed = threading.Event()

    class Judge(ScriptedJudge):
        def evaluate(self, task: Task, program: Program) -> Evaluation:
            if self.script(program) == "correct 7":
                assert confirmed.wait(60), "the first was not confirmed before the second's verdict"
            return super().evaluate(task, program)

        def confirm(self, task: Task, program: Program) -> Evaluation:
            found = super().confirm(task, program)
            confirmed.set()
            return found

    judge, spec = Judge(), SearchSpec(jobs=2, candidates_per_task=2)
    report, _, heard = _search(
        store,
        spec,
        coder=ScriptedCoder(("correct 9", "correct 7")),
        of=subjects()[:1],
        judge=judge,
    )
    assert judge.confirmed == ["norm correct 9", "norm correct 7"]
    assert {c.rank.value for c in store.best()} == {7.0}
    assert report.evaluated == 2
    kinds = [
        type(event).__name__ for event in heard if isinstance(event, CandidateJudged | TaskEnded)
    ]
    assert kinds == ["CandidateJudged", "CandidateJudged", "TaskEnded"]
