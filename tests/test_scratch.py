"""Temporary folders end with their program, and those of a killed one with the next."""

import subprocess
import sys
from pathlib import Path

from kernelwright.scratch import ScratchFolder, sweep

_MAKE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from kernelwright.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "file").touch()
print(folder.path, flush=True)
sys.stdin.read()
"""


def _start(place: Path) -> "tuple[subprocess.Popen[str], Path]":
    command = [sys.executable, "-c", _MAKE, str(place)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_program_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    process, folder = _start(tmp_path)
    assert (folder / "file").exists()
    process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_programs_folder_is_swept_and_no_other(tmp_path: Path) -> None:
    living, kept = _start(tmp_path)
    killed, left = _start(tmp_path)
    somebody_elses = tmp_path / "kernelwright-notes"
    somebody_elses.mkdir()
    killed.kill()
    killed.communicate()
    assert (left / "file").exists()
    sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([kept.parent, somebody_elses])
    living.communicate()
    assert list(tmp_path.iterdir()) == [somebody_elses]


def test_a_folder_is_gone_when_its_block_ends() -> None:
    with ScratchFolder() as folder:
        (folder / "file").touch()
    assert not folder.parent.exists()
