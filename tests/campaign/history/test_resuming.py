"""A night that was killed goes on exactly: nothing is lost, doubled or paid for twice."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.campaign import Engine, SearchSpec, capture_subjects
from kernelwright.campaign.event import CampaignBegan, Event
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.prior_runs import earlier_runs
from kernelwright.campaign.history.resuming import (
    StopWatch,
    ask_to_stop,
    current,
    find_campaign,
    history_of,
    nights,
    searches,
    to_resume,
)
from kernelwright.campaign.history.run_state import state_of
from kernelwright.campaign.redteam.spec import RedTeamSpec
from kernelwright.campaign.report.live_status import StatusReader
from kernelwright.campaign.report.report_query import report_of
from kernelwright.errors import InputError, StoreError
from kernelwright.store import Environment, KernelStore
from tests.campaign import mortal_night
from tests.campaign.mortal_night import night, spec_in, three_subjects
from tests.campaign.scripted import INFO, ScriptedJudge, team

_ROOT = Path(__file__).parents[3]
_ENVIRONMENT = Environment(device=INFO, mlx="1", system="test")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
@pytest.mark.sampled(1)
def test_killed_at_any_write_a_night_ends_as_if_undisturbed(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "killed.db")
    if place == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    for writes, when in ((6, "after"), (13, "after"), (22, "before"), (41, "after")):
        _killed(url, writes, when)
    with KernelStore(url) as killed, KernelStore(str(tmp_path / "calm.db")) as calm:
        survivor, undisturbed = ScriptedJudge(), ScriptedJudge()
        spec = to_resume(killed, None).spec
        after = night(killed, survivor, spec, resumes=True).run(capture_subjects(three_subjects()))
        whole = night(calm, undisturbed, spec, resumes=False).run(
            capture_subjects(three_subjects())
        )
        assert [t.champion_id for t in after.tasks] == [t.champion_id for t in whole.tasks]
        assert None not in [t.champion_id for t in after.tasks]
        counted = ("task", "program", "candidate", "evaluation", "champion")
        rows = [store.statistics().rows for store in (killed, calm)]
        assert [rows[0][table] for table in counted] == [rows[1][table] for table in counted]
        assert len(survivor.asked) < len(undisturbed.asked)
        with pytest.raises(InputError, match="ran to its end; read it with"):
            to_resume(killed, None)


def test_what_was_in_flight_at_a_death_is_tried_last(tmp_path: Path) -> None:
    url = str(tmp_path / "killed.db")
    spec = spec_in(tmp_path)
    for writes in range(14, 30):
        _killed(url, writes, "after")
        with KernelStore(url) as store:
            (run, *_) = nights(store)
            trials = store.history(campaign=run.id, limit=99)
            suspects = [t for t in trials if t.state == "evaluating"]
            if not suspects:
                continue
            judge = ScriptedJudge()
            night(store, judge, spec, resumes=True).run(capture_subjects(three_subjects()))
            suspected = {t.task.name for t in suspects}
            others = [i for i, q in enumerate(judge.asked) if q.split()[0] not in suspected]
            first = judge.asked.index(f"{suspects[-1].task.name} {suspects[-1].idea}")
            assert others
            assert first > max(others)
            return
    pytest.fail("no kill left a candidate in flight")


def test_what_dead_runs_used_counts_towards_the_caps(tmp_path: Path) -> None:
    url = str(tmp_path / "killed.db")
    _killed(url, 30, "after")
    with KernelStore(url) as store:
        begun = store.statistics().rows["evaluation"]
        spec = spec_in(tmp_path).model_copy(update={"evaluations": begun + 4})
        dead = store.begin_campaign(
            name="nightly", spec=spec.model_dump_json(), environment=_ENVIRONMENT
        )
        assert earlier_runs(store, dead.id).evaluations == 0, "another spec is another search"
        judge = ScriptedJudge()
        night(store, judge, spec, resumes=True).run(capture_subjects(three_subjects()))
        assert len(judge.asked) == begun + 4


def test_a_run_that_is_alive_is_not_taken_over(store: KernelStore, tmp_path: Path) -> None:
    spec = spec_in(tmp_path).model_dump_json()
    store.begin_campaign(name="nightly", spec=spec, environment=_ENVIRONMENT)
    with pytest.raises(InputError, match=f"still runs in .*:{os.getpid()}; stop it with"):
        to_resume(store, "nightly")


def test_an_unknown_campaign_is_answered_with_the_latest(
    store: KernelStore, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no campaign with a file in the store yet"):
        find_campaign(nights(store), None)
    spec = spec_in(tmp_path).model_dump_json()
    store.begin_campaign(name="nightly", spec=spec, environment=_ENVIRONMENT)
    with pytest.raises(InputError, match=r"the latest are: \w{8} \(nightly\)"):
        find_campaign(nights(store), "weekly")


def test_only_searches_and_campaigns_are_searches(store: KernelStore, tmp_path: Path) -> None:
    specs = {
        "nightly": spec_in(tmp_path),
        "softmax": SearchSpec(),
        "red team": RedTeamSpec(),
    }
    for name, spec in specs.items():
        store.begin_campaign(name=name, spec=spec.model_dump_json(), environment=_ENVIRONMENT)
    store.begin_campaign(name="a check", spec="{}", environment=_ENVIRONMENT)
    assert [run.name for run in searches(store)] == ["softmax", "nightly"]


def test_a_run_hears_that_it_is_asked_to_stop(store: KernelStore, tmp_path: Path) -> None:
    spec = spec_in(tmp_path).model_dump_json()
    run = store.begin_campaign(name="nightly", spec=spec, environment=_ENVIRONMENT)
    heard = threading.Event()
    watch = StopWatch(store)
    watch.show(CampaignBegan(campaign_id=run.id, device=INFO, store="", functions=()))
    with watch.calling(heard.set):
        ask_to_stop(store, run.id)
        assert heard.wait(10)


def test_a_store_that_is_away_for_a_while_does_not_end_the_watch(
    store: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_in(tmp_path).model_dump_json()
    run = store.begin_campaign(name="nightly", spec=spec, environment=_ENVIRONMENT)
    ask_to_stop(store, run.id)
    ask, asked = store.events, []

    def away_at_first(*arguments: str, **options: tuple[str, ...]) -> object:
        asked.append(arguments)
        if len(asked) == 1:
            raise StoreError("the server restarts")
        return ask(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "events", away_at_first)
    heard = threading.Event()
    watch = StopWatch(store)
    watch.show(CampaignBegan(campaign_id=run.id, device=INFO, store="", functions=()))
    with watch.calling(heard.set):
        assert heard.wait(10)
    assert len(asked) == 2


def test_a_campaign_keeps_its_id_however_often_it_is_taken_up(tmp_path: Path) -> None:
    url, spec = str(tmp_path / "killed.db"), spec_in(tmp_path)
    _killed(url, 20, "after")
    with KernelStore(url) as store:
        (first,) = nights(store)
        report = night(store, ScriptedJudge(), spec, resumes=True).run(
            capture_subjects(three_subjects())
        )
        newest, *_ = nights(store)
        assert newest.id != first.id
        assert find_campaign(nights(store), first.id[:8]) == newest
        told = (
            report.campaign_id,
            StatusReader(store, newest).look().id,
            report_of(store, newest).campaign_id,
            state_of(store, newest).id,
        )
        assert set(told) == {first.id}
        entries = history_of(store, first.id[:8], task=None, status=None, limit=999)
        assert {e.campaign_id for e in entries} == {first.id, newest.id}
        (state,) = (state_of(store, run) for run in current(searches(store)))
        assert (state.kind, state.state) == ("campaign", "finished")
        assert state.tried == len({e.candidate_id for e in entries})


def test_a_campaign_that_goes_on_names_the_functions_that_changed_since(tmp_path: Path) -> None:
    url, spec, said = str(tmp_path / "killed.db"), spec_in(tmp_path), list[Event]()
    with KernelStore(url) as store:
        stopped = night(store, ScriptedJudge(), spec, resumes=False)
        stopped.stop()
        stopped.run(capture_subjects(three_subjects()))
    first, *others = three_subjects()
    edited = replace(first, function=lambda x, weight: mortal_night.gelu(x) * weight)
    with KernelStore(url) as store:
        settings = RunSettings(resumes=True, listen=said.append)
        Engine(store, spec, team(), ScriptedJudge, settings).run(
            capture_subjects((edited, *others))
        )
    (began,) = [event for event in said if isinstance(event, CampaignBegan)]
    assert began.changed == (first.name,)
    assert f"{first.name} changed since: it is searched as it is now" in began.earlier_words


def test_plain_searches_have_a_state_too(store: KernelStore) -> None:
    Engine(store, SearchSpec(jobs=1), team(), ScriptedJudge).run(capture_subjects(three_subjects()))
    assert not nights(store)
    (state,) = (state_of(store, run) for run in searches(store))
    assert (state.kind, state.state) == ("search", "finished")


def _killed(url: str, writes: int, when: str) -> None:
    done = subprocess.run(
        [sys.executable, mortal_night.__file__, url, str(writes), when],
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT)},
        check=False,
    )
    assert done.returncode == -9
