"""Several processes write to one store at the same moment: nothing fails, nothing is lost."""

import multiprocessing
from pathlib import Path

import pytest

from kernelwright.store import Campaign, KernelStore
from tests.store import writer
from tests.store.conftest import ENVIRONMENT

_WRITERS = 4
_OPENERS = 8
# Writers are forked from one process that has imported what they need.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([writer.__name__])


def _at_once(url: str, what: str, names: list[str], count: int) -> list[object]:
    """Run a process for each name; return what they did, and fail with what one failed of."""
    together = _PROCESSES.Barrier(len(names))
    pipes = [_PROCESSES.Pipe(duplex=False) for _ in names]
    running = [
        _PROCESSES.Process(target=writer.write, args=(said, together, what, url, name, count))
        for name, (_, said) in zip(names, pipes, strict=True)
    ]
    for process, (_, said) in zip(running, pipes, strict=True):
        process.start()
        # A process that dies ends its pipe.
        said.close()
    told = [heard.recv() for heard, _ in pipes]
    for process in running:
        process.join()
    failures = [what for is_done, what in told if not is_done]
    assert not failures, failures[0]
    return [what for _, what in told]


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
    _at_once(store.url, "append", _names(), 40)
    lines = store.events(campaign.id)
    assert len({line.body for line in lines}) == len(lines) == 40 * _WRITERS
    middle = lines[100].id
    assert store.events(campaign.id, after=middle) == lines[101:]


def test_the_same_proposals_of_many_writers_are_one_each(
    store: KernelStore, campaign: Campaign
) -> None:
    assert _at_once(store.url, "propose", _names(), 20) == [20] * _WRITERS
    rows = store.statistics().rows
    assert (rows["task"], rows["program"], rows["candidate"], rows["trial"]) == (1, 20, 20, 20)


def test_two_campaigns_never_lease_one_candidate(store: KernelStore) -> None:
    for name in ("a", "b", "c", "d"):
        store.begin_campaign(name=name, spec=name, environment=ENVIRONMENT)
    said = _at_once(store.url, "lease", ["a", "b", "c", "d"], 50)
    taken = [candidate for some in said if isinstance(some, list) for candidate in some]
    assert len(taken) == len(set(taken)) == 50


def test_records_of_many_writers_leave_the_best_as_champion(
    store: KernelStore, campaign: Campaign
) -> None:
    _at_once(store.url, "record", _names(), 8)
    assert store.statistics().rows["evaluation"] == 2 * 8 * _WRITERS
    assert store.best()[0].rank.value == 1000.0 - 7


def test_one_request_of_many_writers_is_numbered_once_each(
    store: KernelStore, campaign: Campaign
) -> None:
    _at_once(store.url, "call", _names(), 12)
    assert len(store.dialogue.calls(campaign.id)) == 12 * _WRITERS


def test_counts_of_many_writers_add_up(store: KernelStore) -> None:
    _at_once(store.url, "want", _names(), 10)
    assert [w.calls for w in store.wanted()] == [10 * _WRITERS] * 2
