"""A run is its process's: no other process, machine or clock passes for it or keeps it alive."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kernelwright.errors import InputError, StoreError
from kernelwright.evaluator.task import Task
from kernelwright.store import Campaign, KernelStore
from kernelwright.store.clock import CLOCK
from kernelwright.store.owner import EXPIRY, Owner, is_alive, owner_name
from tests.store.conftest import ENVIRONMENT, new_trial, program_of, verdict

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HERE = Owner.parse(owner_name())
DEAD = subprocess.Popen([sys.executable, "-c", ""])
DEAD.wait()


def named(host: str, machine: str, boot: str, born: str, process: int) -> str:
    return f"{host}#{machine}.{boot}.{born}:{process}"


@pytest.mark.parametrize(
    ("owner", "age_s", "alive"),
    [
        (owner_name(), 9999, True),
        (f"{HERE.host}:{os.getpid()}", 9999, True),
        (named(HERE.host, HERE.machine, HERE.boot, HERE.born, DEAD.pid), 1, False),
        (named(HERE.host, HERE.machine, HERE.boot, "1", os.getpid()), 1, False),
        (named(HERE.host, HERE.machine, "earlier", HERE.born, os.getpid()), 1, False),
        (named("elsewhere", "m", "b", "1", os.getpid()), 1, True),
        (named("elsewhere", "m", "b", "1", os.getpid()), EXPIRY.total_seconds() + 1, False),
        (named("elsewhere", "m", "b", "1", os.getpid()), -EXPIRY.total_seconds() - 1, False),
        ("elsewhere:1", EXPIRY.total_seconds() + 1, False),
    ],
    ids=[
        "this process",
        "this process, as older versions named it",
        "a process that is gone",
        "another process of the same number",
        "before the machine was started again",
        "another machine, just heard of",
        "another machine, silent",
        "a sign of life from the future",
        "another machine, as older versions named it",
    ],
)
def test_a_run_is_alive_while_its_process_is(owner: str, age_s: float, *, alive: bool) -> None:
    run = Campaign(
        id="0" * 64,
        name="nightly",
        state="running",
        spec="{}",
        environment=ENVIRONMENT,
        owner=owner,
        started_at=NOW - timedelta(days=1),
        heartbeat_at=NOW - timedelta(seconds=age_s),
    )
    assert is_alive(run, NOW) is alive


def test_the_same_search_runs_once_at_a_time(store: KernelStore, campaign: Campaign) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:1")
        with pytest.raises(InputError, match="the same search runs already, as campaign"):
            store.begin_campaign(
                name="evening", spec="{}", environment=ENVIRONMENT, root_id=campaign.root_id
            )
        other = store.begin_campaign(name="evening", spec="{ }", environment=ENVIRONMENT)
    store.end_campaign(campaign.id, "finished")
    assert {c.state for c in store.campaigns() if c.id != other.id} == {"finished"}


def test_the_same_search_runs_in_one_thread_of_a_process_at_a_time(
    store: KernelStore, campaign: Campaign
) -> None:
    def again() -> Campaign:
        return store.begin_campaign(
            name="evening", spec="{}", environment=ENVIRONMENT, root_id=campaign.root_id
        )

    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(InputError, match="the same search runs already, as campaign"):
            threads.submit(again).result()
        store.end_campaign(campaign.id, "failed")
        resumed = threads.submit(again).result()
        # One thread does one thing after the other: what it did not end is over.
        heir = threads.submit(again).result()
    assert [(c.id, c.state) for c in store.campaigns()] == [
        (heir.id, "running"),
        (resumed.id, "interrupted"),
        (campaign.id, "failed"),
    ]


def test_a_run_that_was_taken_up_records_nothing_more(
    store: KernelStore, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:1")
    old = store.begin_campaign(name="evening", spec="{}", environment=ENVIRONMENT)
    trial = store.add_trial(new_trial(old, task, program_of("a")))
    assert store.lease(trial.id)
    monkeypatch.undo()
    with monkeypatch.context() as later:
        later.setattr(CLOCK, "_last", CLOCK.now())
        shown = CLOCK.machine() + 2 * EXPIRY
        later.setattr(CLOCK, "machine", lambda: shown)
        heir = store.begin_campaign(
            name="evening", spec="{}", environment=ENVIRONMENT, continues=lambda run: True
        )
    monkeypatch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:1")
    assert not store.beat(old.id, elapsed_s=1.0)
    with pytest.raises(StoreError, match="goes on in another process; nothing more is recorded"):
        store.record(trial.id, verdict(task, program_of("a")), rank=None)
    store.end_campaign(old.id, "finished")
    assert [(c.id, c.state) for c in store.campaigns()] == [
        (heir.id, "running"),
        (old.id, "interrupted"),
    ]
    assert store.statistics().rows["evaluation"] == 0


def test_two_campaigns_are_not_at_one_candidate_at_once(
    store: KernelStore, campaign: Campaign, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = store.add_trial(new_trial(campaign, task, program_of("a")))
    assert store.lease(mine.id)
    monkeypatch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:1")
    other = store.begin_campaign(name="night", spec="{}", environment=ENVIRONMENT)
    theirs = store.add_trial(new_trial(other, task, program_of("a")))
    assert not store.lease(theirs.id)
    assert not store.begin_confirmation(theirs.id)
    store.record(mine.id, verdict(task, program_of("a")), rank=None)
    assert store.lease(theirs.id)


def test_stamps_never_go_back_with_the_clock(
    store: KernelStore, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_back = CLOCK.machine() - timedelta(hours=3)
    monkeypatch.setattr(CLOCK, "machine", lambda: set_back)
    # A process that starts after the clock was set back knows the last stamp from the store.
    monkeypatch.setattr(CLOCK, "_last", set_back)
    later = store.begin_campaign(name="later", spec="{}", environment=ENVIRONMENT)
    assert [c.id for c in store.campaigns()] == [later.id, campaign.id]
    store.log(later.id, "a", "{}")
    store.log(later.id, "b", "{}")
    first, second = (event.at for event in store.events(later.id))
    assert campaign.heartbeat_at < later.started_at < first < second
