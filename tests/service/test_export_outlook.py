"""What an export will refuse is said before a search, and what it runs prints once."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.campaign import capture_subjects, load_subjects
from kernelwright.service.commands import app
from kernelwright.service.export_outlook import export_remarks

_USER = """\
import time
from dataclasses import dataclass

import mlx.core as mx

print("loading the file")


class Box:
    def __init__(self):
        print("making a box")
        self.factor = 2.0

    def run(self, x):
        return mx.exp(x) * self.factor


box = Box()


@dataclass
class State:
    mean: mx.array
    step: int


def timed(x):
    start = time.time()
    return mx.exp(x) * 2 + start


def updated(state, x):
    return State(state.mean * 0.9 + mx.exp(x), state.step + 1)


def example_inputs():
    x = mx.zeros((4, 8))
    return {"timed": x, "box.run": x, "updated": (State(x, 1), x)}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outlook") / "outlook_of_a_test.py"
    path.write_text(_USER)
    return path


@pytest.fixture(scope="module")
def said(file: Path) -> str:
    """Search the functions once; return what was said."""
    few = ("--candidates", "2", "--repairs", "0", "--quiet")
    targets = [f"{file}:{name}" for name in ("timed", "box.run", "updated")]
    told, _ = _run("search", *targets, *few, "--store", str(file.with_name("kernels.db")))
    return told


def _run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split()), " ".join(done.stderr.split())


def _export(file: Path, name: str, folder: Path) -> tuple[str, str]:
    store = str(file.with_name("kernels.db"))
    return _run(
        "export", f"{file}:{name}", "-o", str(folder), "--store", store, "--force", "--json"
    )


def test_a_plan_says_what_an_export_refuses_with_the_line(file: Path) -> None:
    _, told = _run("plan", str(file))
    assert "timed: `kernelwright export` will refuse it: the function reads the clock" in told
    assert "outlook_of_a_test.py:28)" in told
    assert told.count("will refuse it") == 1


def test_a_search_says_it_before(said: str) -> None:
    assert said.count("will refuse it") == 1
    assert "updated" in said.partition("will refuse it")[2]


def test_dataclasses_go_in_and_come_out(file: Path, said: str, tmp_path: Path) -> None:
    del said
    _, printed = _export(file, "updated", tmp_path)
    assert printed.count("loading the file") <= 1
    verification = (tmp_path / "VERIFICATION.md").read_text()
    assert "differs" not in verification
    assert "- [x] kernels on the " in verification


def test_what_an_export_runs_prints_once(file: Path, said: str, tmp_path: Path) -> None:
    del said
    told, printed = _export(file, "box.run", tmp_path)
    assert told.startswith("{")
    assert "making a box" not in told
    # Loading the file prints, and so does the export; each of them says so once.
    assert printed.count("making a box") == 2


def test_a_search_does_not_wait_for_remarks_on_a_huge_function(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    path.write_text(
        "import time\nimport mlx.core as mx\n\ndef deep(x):\n    time.time()\n"
        "    for _ in range(600):\n        x = x * 1.0001 + 1e-6\n    return x\n"
    )
    captured = capture_subjects(load_subjects(f"{path}:deep", ["f32[4]"]))
    assert list(export_remarks(captured.functions)) == []
