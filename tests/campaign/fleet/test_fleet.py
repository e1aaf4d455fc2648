"""A campaign on a fleet finds what one machine finds, whoever dies meanwhile."""

import asyncio
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from procrastinate import App
from sqlalchemy.orm import Session

from kernelwright.campaign import Engine, SearchReport, SearchSpec, capture_subjects
from kernelwright.campaign.execution.retry_policy import USUAL_CARE
from kernelwright.campaign.fleet import (
    absent_server,
    fleet_executor,
    fleet_executors,
    job_queue,
    worker,
)
from kernelwright.campaign.fleet.chip_queue import ChipQueue
from kernelwright.campaign.fleet.evaluators import evaluators_for
from kernelwright.campaign.fleet.fleet_executor import FleetExecutor
from kernelwright.campaign.fleet.fleet_executors import FleetExecutors
from kernelwright.campaign.fleet.job import FleetJob, job_version
from kernelwright.campaign.fleet.job_queue import queue_app
from kernelwright.campaign.judging.job import TaskText
from kernelwright.errors import BlockedError, DeviceError, InputError, StoreError
from kernelwright.evaluator import Status
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.store import KernelStore
from kernelwright.store.fleet import FleetStore, FleetWorker
from tests.campaign.fleet.scripted_worker import ScriptedJobJudge, working
from tests.campaign.scripted import INFO, ScriptedJudge, proposal, subjects, team
from tests.store.conftest import ENVIRONMENT, server_away, task_of

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(postgresql_url: str) -> Iterator[KernelStore]:
    with KernelStore(postgresql_url) as opened:
        yield opened


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "asked.txt"


def _engine(store: KernelStore, dead_after_s: float = 600.0) -> Engine:
    executors = FleetExecutors(store, "simulator", dead_after_s=dead_after_s)
    return Engine(store, SearchSpec(jobs=2), team(), executors)


def _calm(tmp_path: Path) -> SearchReport:
    with KernelStore(str(tmp_path / "calm.db")) as store:
        engine = Engine(store, SearchSpec(jobs=2), team(), ScriptedJudge)
        return engine.run(capture_subjects(subjects()))


def _asked(journal: Path) -> Counter[str]:
    return Counter(journal.read_text().splitlines())


def test_two_workers_find_what_one_process_finds(
    store: KernelStore, journal: Path, tmp_path: Path
) -> None:
    there = INFO.model_copy(update={"runtime": "there"})
    with (
        working(store.url, ScriptedJobJudge(journal, info=there)),
        working(store.url, ScriptedJobJudge(journal, info=there)),
    ):
        report = _engine(store).run(capture_subjects(subjects()))
    calm = _calm(tmp_path)
    assert [t.champion_id for t in report.tasks] == [t.champion_id for t in calm.tasks]
    assert [(t.tried, t.failures) for t in report.tasks] == [
        (t.tried, t.failures) for t in calm.tasks
    ]
    assert set(_asked(journal).values()) == {1}
    # Verdicts hold where they were given.
    environment = store.campaigns()[0].environment
    assert environment.device.runtime == "there"
    assert report.device.runtime == "there"


def test_a_worker_that_is_killed_costs_its_candidate_a_turn_alone(
    store: KernelStore, journal: Path, tmp_path: Path
) -> None:
    doomed = "norm correct 3"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaign.fleet.scripted_worker", store.url, journal, doomed],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    reports: list[SearchReport] = []
    engine = _engine(store, dead_after_s=8.0)
    search = threading.Thread(
        target=lambda: reports.append(engine.run(capture_subjects(subjects())))
    )
    search.start()
    try:
        assert process.wait(120) == -signal.SIGKILL
        # Whoever comes later finds the work that is left.
        with working(store.url, ScriptedJobJudge(journal)):
            search.join(240)
    finally:
        process.kill()
        engine.stop()
        search.join()
    calm = _calm(tmp_path)
    assert [t.champion_id for t in reports[0].tasks] == [t.champion_id for t in calm.tasks]
    asked = _asked(journal)
    assert asked.pop(f"{doomed} alone") == 1
    assert set(asked.values()) == {1}


def test_what_workers_did_for_a_run_that_died_is_taken_up(
    store: KernelStore, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.campaign.execution.run_control.GRACE_S", 0.0)
    held = threading.Event()
    with working(store.url, ScriptedJobJudge(journal, before=held)):
        engine = _engine(store)
        ended: list[SearchReport] = []
        search = threading.Thread(
            target=lambda: ended.append(engine.run(capture_subjects(subjects())))
        )
        search.start()
        while not journal.exists():
            search.join(0.05)
        engine.stop()
        search.join()
        assert ended[0].ended.interrupted
        held.set()
        report = _engine(store).run(capture_subjects(subjects()))
    assert [t.champion_id for t in report.tasks] == [t.champion_id for t in _calm(tmp_path).tasks]
    assert set(_asked(journal).values()) == {1}


def test_a_job_whose_device_fails_goes_to_another_machine(
    store: KernelStore, journal: Path
) -> None:
    with (
        working(store.url, ScriptedJobJudge(journal, breaks=True)),
        working(store.url, ScriptedJobJudge(journal)),
    ):
        report = _engine(store).run(capture_subjects(subjects()))
    assert {task.rank.value for task in report.tasks if task.rank} == {2.0}
    assert all(Status.CRASHED not in task.failures for task in report.tasks)


def test_workers_of_another_version_are_named_and_get_nothing(
    store: KernelStore, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "job_version", lambda: "0.0-e1")
    monkeypatch.setattr(fleet_executors, "_WAIT_S", 0.0)
    with working(store.url, ScriptedJobJudge(journal)) as old:
        while not store.fleet.workers():
            pass
        with pytest.raises(DeviceError, match=r"there are workers of 0\.0-e1 only"):
            FleetExecutors(store, "simulator").open(1, lambda _, __: True, USUAL_CARE)
        refusal = old._verdict({"id": "1", "version": job_version()})
    assert "it judges jobs of 0.0-e1, not of" in refusal.failure
    assert not journal.exists()


def test_jobs_go_to_the_chip_that_the_campaign_names(store: KernelStore, journal: Path) -> None:
    rare = INFO.model_copy(update={"chip": "rare"})
    others = journal.with_name("others.txt")
    spec = SearchSpec(jobs=2, chip="Rare")
    with (
        working(store.url, ScriptedJobJudge(others)),
        working(store.url, ScriptedJobJudge(others)),
        working(store.url, ScriptedJobJudge(journal, info=rare)),
    ):
        executors = evaluators_for(spec, store, fleet=True)
        report = Engine(store, spec, team(), executors).run(capture_subjects(subjects()))
    assert report.device.chip == "rare"
    assert journal.exists()
    assert not others.exists()


def test_a_chip_that_nobody_has_is_named_with_those_that_are_there(
    store: KernelStore, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_executors, "_WAIT_S", 0.0)
    with working(store.url, ScriptedJobJudge(journal)):
        while not store.fleet.workers():
            pass
        executors = FleetExecutors(store, "simulator", chip="Apple M9")
        with pytest.raises(DeviceError, match=r"serves simulator Apple M9; workers have scripted"):
            executors.open(1, lambda _, __: True, USUAL_CARE)


def test_a_chip_needs_a_fleet(tmp_path: Path) -> None:
    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        pytest.raises(InputError, match=r"names the chip 'Apple M2'.* give --fleet"),
    ):
        evaluators_for(SearchSpec(device="metal", chip="Apple M2"), store, fleet=False)


def test_a_fleet_needs_a_server(tmp_path: Path) -> None:
    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        pytest.raises(InputError, match="expected a PostgreSQL store for a fleet"),
    ):
        _engine(store).run(capture_subjects(subjects()))


def test_a_job_is_json_and_carries_all_that_decides_its_verdict() -> None:
    task = Task(task_of((4, 8)).graph, "f/1", (Tolerance(1e-3, 1e-4),), (task_of((2, 8)).graph,))
    job = FleetJob(
        id="1",
        version=job_version(),
        task=TaskText.of(task),
        program=proposal(task, "correct 1").program,
        config=EvaluatorConfig(secret="s"),
        tried=3,
    )
    read = FleetJob.model_validate_json(job.model_dump_json())
    assert read == job
    assert read.task.task() == task
    assert read.task.task().variants == task.variants
    assert (read.config.secret, read.tried) == ("s", 3)


@pytest.mark.slow
def test_a_server_that_was_away_costs_nothing_and_no_secret(
    store: KernelStore,
    journal: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    go = threading.Event()
    reports: list[SearchReport] = []
    with working(store.url, ScriptedJobJudge(journal, before=go), say=said.append):
        search = threading.Thread(
            target=lambda: reports.append(_engine(store).run(capture_subjects(subjects())))
        )
        search.start()
        while not journal.exists():
            search.join(0.05)
        with server_away(store.url):
            go.set()
            while not any("waits until its server is back" in words for words in said):
                search.join(0.05)
        search.join(120)
    calm = _calm(tmp_path)
    assert [t.champion_id for t in reports[0].tasks] == [t.champion_id for t in calm.tasks]
    assert set(_asked(journal).values()) == {1}
    told = "".join((*capfd.readouterr(), *said))
    assert "Traceback" not in told
    assert "secret" not in told


def test_a_worker_whose_connection_finds_no_server_goes_on_waiting(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "prepare_queue", lambda url: None)
    monkeypatch.setattr(job_queue, "_ANSWER_S", 0.05)
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        one = worker.Worker(store, lambda: ScriptedJobJudge(journal))
        store.url = f"postgresql://nobody@/none?host={tmp_path}"
        assert asyncio.run(one._take_jobs()) == 0.0


def test_a_campaign_that_finds_no_queue_waits_for_its_server(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "_ANSWER_S", 0.05)
    monkeypatch.setattr(fleet_executor, "_WAIT_S", 0.01)
    opened = threading.Event()

    def open_queue(app: App, name: str, fleet: FleetStore) -> ChipQueue:
        opened.set()
        return ChipQueue(app, name, fleet)

    monkeypatch.setattr(fleet_executor, "ChipQueue", open_queue)
    listed = FleetWorker(
        id="1", queue="q", version="1", environment=ENVIRONMENT, host="h", process=1, jobs=1
    )
    job_queue.prepare_queue(store.url)
    with server_away(store.url):
        executor = FleetExecutor(store, EvaluatorConfig(), listed, width=1, dead_after_s=60.0)
        assert not opened.wait(0.3)
        assert executor._broken is None
    with executor:
        assert opened.wait(60)


@pytest.mark.parametrize("failures", [1, 3])
def test_what_starts_without_its_server_waits_and_says_so_once(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent_server, "FIRST_PAUSE_S", 0.0)
    said: list[str] = []
    answers = [BlockedError("the store x does not answer.")] * failures

    def ask() -> str:
        if answers:
            raise answers.pop()
        return "here"

    assert absent_server.once_answered(ask, said.append) == "here"
    assert said == [
        "the store x does not answer; waits until its server is back, 10 minutes at most"
    ]


def test_what_waited_for_ten_minutes_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent_server, "LONGEST_AWAY_S", -1.0)

    def ask() -> None:
        raise BlockedError("the store x does not answer.")

    with pytest.raises(StoreError, match="does not answer; gave up after"):
        absent_server.once_answered(ask, print)


def test_a_queue_whose_server_is_away_is_waited_for(store: KernelStore) -> None:
    with server_away(store.url), pytest.raises(BlockedError, match="queue cannot be made"):
        job_queue.prepare_queue(store.url)


def test_no_log_tells_a_job(store: KernelStore) -> None:
    queue_app(store.url)
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    # Pytest's own handlers sit on loggers that do not propagate, too.
    logging.getLogger().addHandler(handler)
    for name in ("procrastinate.worker.worker", "psycopg.pool"):
        logging.getLogger(name).error("Job kernelwright.evaluate(job={'secret': 'x'})")
    logging.getLogger().removeHandler(handler)
    assert told.getvalue() == ""


def test_a_verdict_waits_for_the_server_and_its_job_is_given_back_in_a_sentence(
    store: KernelStore, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FIRST_PAUSE_S", 0.0)
    said: list[str] = []
    judge = ScriptedJobJudge(journal)
    one = worker.Worker(store, lambda: judge, say=said.append)
    failures = [BlockedError("the store is away."), None, BlockedError("the store is away."), None]

    write = store.fleet._write

    @contextmanager
    def failing() -> Iterator[Session]:
        if (failure := failures.pop(0)) is not None:
            raise failure
        with write() as session:
            yield session

    monkeypatch.setattr(store.fleet, "_write", failing)
    job = {"id": "0123456789", "version": "another", "config": {"secret": "x"}}
    with store.fleet.waiting_when_blocked(one._wait_for_server):
        one._evaluate(job)
        assert failures == []
        assert "judges jobs of" in said[-1]
        monkeypatch.setattr(worker, "_LONGEST_WAIT_S", -1.0)
        failures += [BlockedError("the store is away.")]
        one._evaluate(job)
    assert said[-1] == "01234567 is given back: the store is away."
