"""`kernelwright run`: what is not there is one sentence, and a program fails as under Python."""

import subprocess
import sys
from pathlib import Path

import pytest


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kernelwright", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", ["nothing.py", "no_such_module", "json", "importlib.nothing"])
@pytest.mark.sampled(2)
def test_a_program_that_is_not_there_is_one_sentence(tmp_path: Path, program: str) -> None:
    done = _run(tmp_path, program)
    assert done.returncode == 1
    assert done.stderr.startswith("error expected a ")
    assert repr(program) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_imports_its_neighbours_and_fails_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def fail(): raise ValueError('mine')\n")
    (tmp_path / "program.py").write_text("import beside\nbeside.fail()\n")
    by_file, by_module = _run(tmp_path, "program.py"), _run(tmp_path, "program")
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    for done in (by_file, by_module):
        assert done.returncode == plain.returncode == 1
        assert done.stderr.splitlines()[-1] == "ValueError: mine"
        assert "kernelwright" not in done.stderr
