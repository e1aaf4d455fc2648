"""Devices that fail, disks that fill, workers that die: a night outlasts them or says why not."""

import fcntl
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kernelwright.campaign import (
    Engine,
    SearchReport,
    SearchSpec,
    capture_subjects,
)
from kernelwright.campaign.event import CampaignHeldUp, CandidateJudged, Event
from kernelwright.campaign.execution import run_control
from kernelwright.campaign.execution.evaluator_pool import EvaluatorPool, judges_at_once
from kernelwright.campaign.execution.retry_policy import DeviceCare, DeviceParkedError, RetryPolicy
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history import heartbeat
from kernelwright.campaign.history.run_state import reason_of
from kernelwright.campaign.judging.device_lock import turn_on
from kernelwright.errors import DeviceError, OutdatedError, StoreError
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import Environment, KernelStore, KnownEvaluation
from kernelwright.testing.fault import Fault, Sabotage
from kernelwright.testing.fault.faulty_store import FaultyStore
from tests.campaign.scripted import INFO, ScriptedCoder, ScriptedJudge, subjects, team

_ROOT = Path(__file__).parents[3]
OWN_DISKS = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0
)
RETRY_POLICY = RetryPolicy(failures=4, deaths=2, most_deaths=4, first_pause_s=0.001)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


class FailingJudge(ScriptedJudge):
    """Asks a script, before every evaluation, what goes wrong."""

    fails: Callable[[], Exception | Status | None] = staticmethod(lambda: None)

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        trouble = self.fails()
        if isinstance(trouble, Exception):
            raise trouble
        evaluation = super().evaluate(task, program)
        if trouble is None:
            return evaluation
        return evaluation.model_copy(update={"status": trouble, "predicted_us": None})


def failing(*troubles: Exception | Status | None, then: Exception | Status | None = None):  # type: ignore[no-untyped-def]  # noqa: ANN201
    left = list(troubles)

    def make() -> FailingJudge:
        judge = FailingJudge()
        judge.fails = lambda: left.pop(0) if left else then
        return judge

    return make


def search(
    store: KernelStore,
    make: Callable[[], ScriptedJudge],
    spec: SearchSpec | None = None,
    *,
    of: int = 2,
) -> tuple[SearchReport, list[Event]]:
    events: list[Event] = []
    engine = Engine(
        store,
        spec or SearchSpec(jobs=1),
        team(),
        make,
        RunSettings(listen=events.append, care=DeviceCare(RETRY_POLICY)),
    )
    return engine.run(capture_subjects(subjects()[:of])), events


def calm_champions(tmp_path: Path) -> list[str | None]:
    with KernelStore(str(tmp_path / "calm.db")) as calm:
        report, _ = search(calm, ScriptedJudge)
        return [task.champion_id for task in report.tasks]


def test_a_device_is_left_alone_for_longer_and_longer_and_goes_on(
    store: KernelStore, tmp_path: Path
) -> None:
    silent = DeviceError("the driver does not answer.")
    report, events = search(store, failing(None, silent, silent, silent))
    waits = [e for e in events if isinstance(e, CampaignHeldUp)]
    assert [w.seconds for w in waits] == [0.001, 0.002, 0.004]
    assert {w.reason for w in waits} == {"the driver does not answer."}
    assert not report.ended.interrupted
    assert [t.champion_id for t in report.tasks] == calm_champions(tmp_path)


def test_a_device_that_stays_away_is_parked_and_the_rest_is_for_later(
    store: KernelStore, tmp_path: Path
) -> None:
    gone = DeviceError("the driver does not answer.")
    report, _ = search(store, failing(None, None, None, then=gone))
    assert report.ended.parked
    assert report.ended.interrupted
    assert "is parked, it failed 4 times in a row; the last time: the driver" in report.ended.reason
    assert store.campaigns()[0].state == "interrupted"
    thought_of = {entry.task.name for entry in store.history() if entry.state == "intended"}
    assert "softmax" in thought_of, "what needs no device goes on"
    again, _ = search(store, ScriptedJudge)
    assert [t.champion_id for t in again.tasks] == calm_champions(tmp_path)


def test_a_program_that_was_upgraded_ends_the_search_at_once_and_another_start_goes_on(
    store: KernelStore, tmp_path: Path
) -> None:
    changed = OutdatedError("Kernelwright was changed; start the program again.")
    report, events = search(store, failing(None, None, None, then=changed))
    assert not [e for e in events if isinstance(e, CampaignHeldUp)]
    assert report.ended.interrupted
    assert not report.ended.parked, "whoever runs several must not go on with the next"
    assert report.ended.reason == "Kernelwright was changed; start the program again"
    assert store.campaigns()[0].state == "interrupted"
    again, _ = search(store, ScriptedJudge)
    assert [t.champion_id for t in again.tasks] == calm_champions(tmp_path)


def test_an_innocent_candidate_is_not_blamed_for_a_dead_worker(
    store: KernelStore, tmp_path: Path
) -> None:
    report, _ = search(store, failing(Status.CRASHED, None, None, Status.TIMEOUT))
    assert [t.champion_id for t in report.tasks] == calm_champions(tmp_path)
    assert report.evaluated == 18
    assert Counter(e.status for e in store.history(limit=99))[Status.CRASHED] == 0


def test_workers_that_die_in_a_row_make_the_device_rest_and_park_it() -> None:
    rests: list[float] = []

    def rest(seconds: float, reason: str) -> bool:
        rests.append(seconds)
        return False

    coder = ScriptedCoder(tuple(f"correct {n}" for n in range(9)))
    task = _task()
    with EvaluatorPool(failing(then=Status.CRASHED), 1, rest, DeviceCare(RETRY_POLICY)) as pool:
        programs = [p.program for p in coder.write(task, pool.info, (), count=9)]
        for program in programs[:3]:
            assert pool.evaluate(task, program).status is Status.CRASHED
        with pytest.raises(DeviceParkedError, match="4 workers died in a row"):
            pool.evaluate(task, programs[3])
    assert rests == [0.001, 0.002]


def test_nothing_is_evaluated_while_the_machine_is_hot() -> None:
    weather = ["it is hot", "it is hot", ""]
    rests: list[tuple[float, str]] = []

    def rest(seconds: float, reason: str) -> bool:
        rests.append((seconds, reason))
        return False

    care = DeviceCare(RETRY_POLICY, power_monitor=lambda: weather.pop(0) if weather else "")
    task = _task()
    with EvaluatorPool(ScriptedJudge, 1, rest, care) as pool:
        (proposal,) = ScriptedCoder().write(task, pool.info, (), count=1)
        assert pool.evaluate(task, proposal.program).is_correct
    assert rests == [(0.001, "it is hot"), (0.002, "it is hot")]


def test_a_candidate_that_was_there_whenever_the_campaign_died_is_given_up(
    store: KernelStore,
) -> None:
    class Death(BaseException):
        pass

    class Deadly(ScriptedJudge):
        """Takes the process down, as far as the store can see."""

        def evaluate(self, task: Task, program: Program) -> Evaluation:
            if program.kernels[0].source == "wrong":
                raise Death
            return super().evaluate(task, program)

    spec = SearchSpec(jobs=1, most_deaths=2)
    for _ in range(2):
        with pytest.raises(Death):
            search(store, Deadly, spec, of=1)
    report, _ = search(store, Deadly, spec, of=1)
    assert not report.ended.interrupted
    summaries = [e.summary for e in store.history(limit=99) if e.idea == "wrong"]
    assert "given up: it was in flight when the campaign died, 2 times" in summaries


def test_a_second_ctrl_c_blames_nobody(store: KernelStore) -> None:
    class Interrupted(ScriptedJudge):
        def evaluate(self, task: Task, program: Program) -> Evaluation:
            if program.kernels[0].source == "wrong":
                raise KeyboardInterrupt
            return super().evaluate(task, program)

    spec = SearchSpec(jobs=1, most_deaths=1)
    with pytest.raises(KeyboardInterrupt):
        search(store, Interrupted, spec, of=1)
    (run,) = store.campaigns()
    assert (run.state, reason_of(store, run)) == ("interrupted", "interrupted")
    search(store, ScriptedJudge, spec, of=1)
    assert not [e for e in store.history(limit=99) if "given up" in e.summary]


def test_a_full_disk_holds_the_search_up_with_a_sentence_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_control, "_FIRST_PAUSE_S", 0.001)
    full = [Fault(kind="disk_full", at="write", number=n, lasts=3) for n in (7, 15, 40)]
    with FaultyStore(str(tmp_path / "full.db"), Sabotage(full)) as store:
        report, events = search(store, ScriptedJudge)
        assert [t.champion_id for t in report.tasks] == calm_champions(tmp_path)
        rows = store.statistics().rows
    waits = [e for e in events if isinstance(e, CampaignHeldUp)]
    assert [w.seconds for w in waits[:3]] == [0.001, 0.002, 0.004]
    assert len(waits) == 9
    assert all("is on a full disk; free some space" in w.reason for w in waits)
    assert rows["evaluation"] == 18 + 2


def test_a_search_that_is_stopped_while_the_disk_is_full_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_control, "_FIRST_PAUSE_S", 0.001)
    path = str(tmp_path / "full.db")
    full = Fault(kind="disk_full", at="write", number=20, lasts=10_000)
    with FaultyStore(path, Sabotage([full])) as store:
        engine = Engine(
            store,
            SearchSpec(jobs=1),
            team(),
            ScriptedJudge,
            RunSettings(
                listen=lambda event: engine.stop() if isinstance(event, CampaignHeldUp) else None
            ),
        )
        with pytest.raises(StoreError, match="is on a full disk; free some space"):
            engine.run(capture_subjects(subjects()))
    with KernelStore(path) as store:
        report, events = search(store, ScriptedJudge)
        assert [t.champion_id for t in report.tasks] == calm_champions(tmp_path)
        assert any(isinstance(e, CandidateJudged) and e.reused for e in events)


def test_threads_and_processes_take_turns_on_a_device_that_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.campaign.judging.device_lock.shared_cache", lambda: tmp_path)
    for alone in (True, False):
        with turn_on("simulator", lambda: True, alone=True):
            assert _is_free("simulator", alone=alone)
        with turn_on("cuda", lambda: False, alone=True):
            assert not _is_free("cuda", alone=alone)
        with turn_on("cuda", lambda: False, alone=False):
            assert _is_free("cuda", alone=alone) is not alone
        with (tmp_path / "cuda.gate").open("w") as file:
            # A lock belongs to what opened the file, so that one process can stand for two.
            fcntl.flock(file, fcntl.LOCK_EX)
            # Who waits for a turn at the gate has the next one, even where the device is free.
            assert not _is_free("cuda", alone=alone)
        assert _is_free("cuda", alone=alone)


def _is_free(device: DeviceName, *, alone: bool) -> bool:
    with suppress(DeviceError), turn_on(device, lambda: True, alone=alone):
        return True
    with pytest.raises(DeviceError, match="while somebody else used the cuda device"):
        turn_on(device, lambda: True, alone=alone).__enter__()
    return False


def test_only_a_gpu_of_its_own_memory_has_several_judges() -> None:
    names: tuple[DeviceName, ...] = ("simulator", "metal", "cuda")
    devices = (INFO.model_copy(update={"name": n, "measures_time": n != names[0]}) for n in names)
    assert [judges_at_once(device, 3) for device in devices] == [3, 1, 3]


def test_a_run_that_others_have_taken_up_stops_and_records_nothing_more(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.01)
    go = threading.Event()
    engine = Engine(store, SearchSpec(jobs=1), team(), lambda: ScriptedJudge(before=go))
    reports: list[SearchReport | StoreError] = []

    def run() -> None:
        try:
            reports.append(engine.run(capture_subjects(subjects())))
        except StoreError as e:
            reports.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    while not store.campaigns() or not store.history(limit=1):
        pass
    # What another machine's process does that has heard nothing for a minute.
    with closing(sqlite3.connect(store.label)) as db, db:
        db.execute("UPDATE campaign SET state = 'interrupted'")
    go.set()
    thread.join(30)
    (ended,) = reports
    words = str(ended) if isinstance(ended, StoreError) else ended.ended.reason
    assert "another process" in words
    assert store.statistics().rows["evaluation"] <= 1


@pytest.mark.skipif(not OWN_DISKS, reason="this system lets nobody mount a disk of their own")
def test_a_disk_that_is_really_full_is_waited_for(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-m", "tests.campaign.small_disk", str(tmp_path)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    champions, counts, *reasons = done.stdout.splitlines()
    assert champions == str(calm_champions(tmp_path))
    assert counts == f"{18 + 2} 3"
    assert len(reasons) == 1
    assert "kernels.db is on a full disk; free some space to go on" in reasons[0]


def test_two_searches_of_one_task_judge_each_candidate_once(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ScriptedJudge()
    # Each thread passes for a process of another machine, which no heartbeat's thread would.
    monkeypatch.setattr(heartbeat, "BEAT_S", 600.0)
    monkeypatch.setattr(
        "kernelwright.store.writer.owner_name", lambda: f"{threading.current_thread().name[:5]}:1"
    )
    searches = [
        threading.Thread(
            target=search,
            args=(store, lambda: judge, SearchSpec(name=name, jobs=1)),
            name=name,
        )
        for name in ("dusk", "night")
    ]
    for thread in searches:
        thread.start()
    for thread in searches:
        thread.join(60)
    asked = Counter(judge.asked)
    assert set(asked.values()) == {1}
    assert len(asked) == 18


def test_verdicts_that_come_while_candidates_wait_do_not_end_a_search(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(store, ScriptedJudge, SearchSpec(name="dusk", jobs=1))
    asked_for, known = set[str](), KernelStore.known

    def known_at_the_second_look(
        self: KernelStore, task: str, program: str, environment: Environment, **options: int
    ) -> KnownEvaluation | None:
        if program in asked_for:
            return known(self, task, program, environment, **options)
        asked_for.add(program)
        return None

    monkeypatch.setattr(KernelStore, "known", known_at_the_second_look)
    judge = ScriptedJudge()
    report, _ = search(store, lambda: judge, SearchSpec(name="night", jobs=1))
    assert not judge.asked
    assert all(task.champion_id for task in report.tasks)


def _task() -> Task:
    from kernelwright.ir import canonicalize, capture

    subject = subjects()[1]
    return Task(canonicalize(capture(subject.function, *subject.inputs)), subject.name)
