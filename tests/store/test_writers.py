"""Several processes write to one store at the same moment: nothing fails, nothing is lost."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.store import Campaign, KernelStore
from tests.store import writer
from tests.store.conftest import ENVIRONMENT

_ROOT = Path(__file__).parents[2]
_WRITERS = 4
_OPENERS = 8
_IMPORT_S = 4.0
"""What a process takes to start on a busy machine, about; a late one only overlaps less."""


def _at_once(url: str, what: str, names: list[str], count: int) -> list[str]:
    """Run a process for each name; return what they say, and fail with what one failed of."""
    start = time.time() + _IMPORT_S
    running = [
        subprocess.Popen(
            [sys.executable, writer.__file__, url, what, name, str(count), str(start)],
            cwd=_ROOT,
            env={"PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    if what == "lease":
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "leased\n"
    said = [process.communicate(timeout=120) for process in running]
    failures = [errors for process, (_, errors) in zip(running, said, strict=True)
                if process.returncode]  # fmt: skip
    assert not failures, failures[0]
    return [out for out, _ in said]


def _names(prefix: str = "evening") -> list[str]:
    return [f"{prefix}/{i}" for i in range(_WRITERS)]


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_first_opens_at_once_make_one_store(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "new.db")
    if place == "postgresql":
        url = request.getfixturevalue("empty_postgresql_url")
    _at_once(url, "open", [f"evening/{i}" for i in range(_OPENERS)], 1)
    with KernelStore(url) as store:
        assert store.campaigns() == ()


def test_lines_of_many_writers_are_all_there_behind_a_cursor(
    store: KernelStore, campaign: Campaign
) -> None:
    _at_once(store.url, "append", _names(), 75)
    lines = store.events(campaign.id)
    assert len({line.body for line in lines}) == len(lines) == 75 * _WRITERS
    middle = lines[100].id
    assert store.events(campaign.id, after=middle) == lines[101:]


def test_the_same_proposals_of_many_writers_are_one_each(
    store: KernelStore, campaign: Campaign
) -> None:
    assert _at_once(store.url, "propose", _names(), 40) == ["40\n"] * _WRITERS
    rows = store.statistics().rows
    assert (rows["task"], rows["program"], rows["candidate"], rows["trial"]) == (1, 40, 40, 40)


def test_two_campaigns_never_lease_one_candidate(store: KernelStore) -> None:
    for name in ("a", "b", "c", "d"):
        store.begin_campaign(name=name, spec=name, environment=ENVIRONMENT)
    said = _at_once(store.url, "lease", ["a", "b", "c", "d"], 50)
    taken = [candidate for line in said for candidate in json.loads(line)]
    assert len(taken) == len(set(taken)) == 50


def test_records_of_many_writers_leave_the_best_as_champion(
    store: KernelStore, campaign: Campaign
) -> None:
    _at_once(store.url, "record", _names(), 15)
    assert store.statistics().rows["evaluation"] == 2 * 15 * _WRITERS
    assert store.best()[0].rank.value == 1000.0 - 14


def test_one_request_of_many_writers_is_numbered_once_each(
    store: KernelStore, campaign: Campaign
) -> None:
    _at_once(store.url, "call", _names(), 25)
    assert len(store.dialogue.calls(campaign.id)) == 25 * _WRITERS


def test_counts_of_many_writers_add_up(store: KernelStore) -> None:
    _at_once(store.url, "want", _names(), 20)
    assert [w.calls for w in store.wanted()] == [20 * _WRITERS] * 2
