"""A run that was asked to hold still begins nothing, and its hours do not pass."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kernelwright.campaign import Engine, SearchSpec, capture_subjects
from kernelwright.campaign.event import CandidateJudged, Event
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.pausing import GO_ON, PAUSE, Pause, is_paused, paused_s
from kernelwright.campaign.history.resuming import (
    StopWatch,
    ask_to_go_on,
    ask_to_pause,
    ask_to_stop,
    find_paused,
    nights,
    shown_id,
)
from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from kernelwright.store import Campaign, KernelStore, LoggedEvent
from tests.campaign.scripted import INFO, ScriptedJudge, subjects, team

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def log(*asked: tuple[str, float]) -> list[LoggedEvent]:
    return [
        LoggedEvent(id=s, campaign_id="c", at=NOON + timedelta(seconds=s), kind=kind, body="{}")
        for kind, s in asked
    ]


@pytest.mark.parametrize(
    ("asked", "seconds", "holds"),
    [
        ((), 0.0, False),
        (((PAUSE, 10), (GO_ON, 25)), 15.0, False),
        (((PAUSE, 10), (PAUSE, 12), (GO_ON, 25), (PAUSE, 40)), 35.0, True),
        (((GO_ON, 10),), 0.0, False),
        (((PAUSE, 70),), 0.0, True),
    ],
)
def test_pauses_are_added_up(
    asked: tuple[tuple[str, float], ...], seconds: float, *, holds: bool
) -> None:
    events = log(*asked)
    assert paused_s(events, NOON + timedelta(seconds=60)) == seconds
    assert is_paused(events) is holds


def test_a_paused_run_begins_nothing_until_it_goes_on(tmp_path: Path) -> None:
    judge, pause = ScriptedJudge(), Pause()
    held_at: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, CandidateJudged) and not held_at:
            pause.hold()
            held_at.append(len(judge.asked))
            threading.Timer(0.5, resume).start()

    def resume() -> None:
        held_at.append(len(judge.asked))
        pause.go_on()

    with KernelStore(str(tmp_path / "kernels.db")) as store:
        spec = SearchSpec(jobs=1, seconds=30)
        engine = Engine(store, spec, team(), lambda: judge, RunSettings(listen=listen, pause=pause))
        report = engine.run(capture_subjects(subjects()))
    assert held_at == [1, 1]
    assert all(task.champion_id for task in report.tasks)
    assert 0.4 < pause.seconds < 30


def test_a_run_is_paused_taken_up_and_stopped_from_another_terminal(tmp_path: Path) -> None:
    judge, pause = ScriptedJudge(before=threading.Event()), Pause()
    url = str(tmp_path / "kernels.db")
    with KernelStore(url) as store, KernelStore(url) as other:
        said: list[str] = []
        watch = StopWatch(store, pause, said.append)
        engine = Engine(
            store,
            SearchSpec(jobs=1),
            team(),
            lambda: judge,
            RunSettings(listen=watch.show, pause=pause),
        )
        run = threading.Thread(target=engine.run, args=(capture_subjects(subjects()),))
        with watch.calling(engine.stop):
            run.start()
            campaign_id = _begun(other)
            ask_to_pause(other, campaign_id)
            _until(lambda: pause.is_on)
            found = find_paused(other, other.campaigns(), None)
            assert found is not None
            assert found.id == campaign_id
            assert judge.before is not None
            judge.before.set()
            ask_to_go_on(other, campaign_id)
            _until(lambda: not pause.is_on)
            assert find_paused(other, other.campaigns(), campaign_id[:6]) is None
            ask_to_stop(other, campaign_id)
            run.join(20)
        assert not run.is_alive()
    assert [words.partition(":")[0] for words in said] == ["paused", "goes on"]
    assert f"kernelwright campaign resume {campaign_id[:8]}" in said[0]


def _begun(store: KernelStore) -> str:
    _until(lambda: bool(store.campaigns()))
    return store.campaigns()[0].id


def _until(holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(1000):
        if holds():
            return
        waiting.wait(0.02)
    pytest.fail("it did not happen within 20 s")


def test_a_paused_campaign_is_found_by_the_id_that_every_page_shows(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        first = _night(store)
        store.end_campaign(first.id, "interrupted", elapsed_s=1.0)
        second = _night(store, root_id=first.id)
        ask_to_pause(store, second.id)
        held = find_paused(store, nights(store), shown_id(second)[:8])
    assert shown_id(second) == first.id
    assert second.id[:8] != first.id[:8]
    assert held is not None
    assert held.id == second.id


def _night(store: KernelStore, root_id: str | None = None) -> Campaign:
    spec = CampaignSpec(folder=".", functions=(CampaignFunction(target="catalog:softmax"),))
    return store.begin_campaign(
        name="nightly",
        spec=spec.model_dump_json(),
        environment=environment_of(INFO),
        continues=lambda run: False,
        root_id=root_id,
    )
