"""`kernelwright campaign …` and `report`, as typed: results, and one line for an error."""

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kernelwright.service.cli import main

Run = Callable[..., tuple[int, str, str]]
_DOUBLE = "import mlx.core as mx\ndef double(x):\n    return mx.softmax(x * 2, axis=-1) + 1\n"
_NIGHT = """
[campaign]
name = "tiny"
candidates = 2
jobs = 1
minimum_effect = 0.0

[[functions]]
target = "functions.py"
inputs = ["f32[8,32]"]

[export]
folder = "vendored"
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a tiny night to its end, in a folder of its own."""
    folder = _write_night(tmp_path_factory.mktemp("night"), _NIGHT)
    done = subprocess.run(
        _command(folder, "run", "nightly.toml", "--quiet"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 of 1 task faster than MLX" in done.stdout
    return folder


@pytest.fixture
def folder(tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a copy of the finished night as its working directory."""
    copied = Path(shutil.copytree(finished, tmp_path / "night"))
    monkeypatch.chdir(copied)
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(copied / "kernels.db"))
    return copied


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Run:
    monkeypatch.setenv("COLUMNS", "120")

    def type_in(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kernelwright", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return type_in


def test_init_writes_what_check_accepts_and_overwrites_nothing(run: Run) -> None:
    assert run("campaign", "init", "new.toml")[0] == 0
    assert "kernelwright campaign check new.toml" in Path("new.toml").read_text()
    assert "nightly.toml" not in Path("new.toml").read_text()
    code, out, _ = run("campaign", "check", "new.toml")
    assert code == 0
    for words in ("1 function", "at most 12 candidates", "after 8 h 00 min", "$0.00"):
        assert words in out
    assert "next  kernelwright campaign run new.toml" in out
    code, _, err = run("campaign", "init", "new.toml")
    assert (code, err.count("\n")) == (1, 1)
    assert "new.toml exists already; name another file" in err


def test_check_says_beside_a_target_why_it_is_refused(run: Run, folder: Path) -> None:
    (folder / "looking.py").write_text("def looking(x):\n    return x if x.sum() > 0 else -x\n")
    more = '\n[[functions]]\ntarget = "looking.py"\ninputs = ["f32[8,32]"]\n'
    one = _NIGHT.replace("candidates = 2", "candidates = 1\nplateau = 1")
    (folder / "nightly.toml").write_text(one + more)
    code, out, _ = run("campaign", "check", "nightly.toml")
    words = " ".join(out.split())
    assert (code, out.count("looking.py: ")) == (0, 1)
    assert "looking.py: refused: looking (" in words
    assert "at most 1 candidate functions.py: double" in words
    assert "a task after 1 candidate without a gain" in words


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("candidates = 2", 'candidates = "two"', "nightly.toml, line 4: [campaign] candidates"),
        ("jobs = 1", "job = 1", "line 5: [campaign] job is no key of a campaign"),
        ("[export]", "[export", "is no TOML: Expected ']' at the end of a table declaration (at"),
        ('"functions.py"', '"nowhere.py"', "expected a Python file, found nothing at"),
        ('"functions.py"', '"no.where:f"', "expected a Python file or module, found no 'no'"),
        ('"functions.py"', '"wanted:abcd"', "has no call 'abcd'"),
        ('"f32[8,32]"', '"f31[8,32]"', "expected a dtype, one of"),
    ],
)
def test_a_bad_file_is_one_sentence(
    run: Run, folder: Path, command: str, old: str, new: str, words: str
) -> None:
    _write_night(folder, _NIGHT.replace(old, new))
    code, out, err = run("campaign", command, "nightly.toml")
    # A value that cannot be read is misuse, on a command line and in a file.
    expected = 2 if "f31" in new else 1
    assert (code, out, err.count("\n")) == (expected, "", 1)
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("campaign", "run", "--wanted"), "nothing is wanted in"),
        (("campaign", "pause"), "(tiny) does not run"),
        (("campaign", "stop", "tiny"), "(tiny) does not run"),
        (("campaign", "resume"), "ran to its end; read it with: kernelwright report"),
        (("campaign", "status", "weekly"), "no campaign has the id or name 'weekly'"),
        (("campaign", "watch", "weekly"), "no campaign has the id or name 'weekly'"),
        (("report", "weekly"), "no campaign has the id or name 'weekly'"),
        (("report", "--html", "no/where.html"), "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_one_sentence(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = run(*arguments)
    assert (code, err.count("\n")) == (1, 1)
    assert words in err


def test_a_run_without_a_file_is_a_usage_error(run: Run) -> None:
    code, _, err = run("campaign", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "expected a night's file or --wanted, found neither" in err


@pytest.mark.parametrize("command", ["status", "watch", "pause", "resume", "stop", "run"])
def test_a_store_of_another_version_is_one_sentence(run: Run, folder: Path, command: str) -> None:
    with closing(sqlite3.connect(folder / "kernels.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    arguments = ["nightly.toml"] if command == "run" else []
    code, _, err = run("campaign", command, *arguments)
    assert (code, err.count("\n")) == (1, 1)
    assert "has schema 9999" in err
    assert "upgrade Kernelwright or choose another with --store" in err


def test_a_finished_night_is_listed_watched_and_exported(run: Run, folder: Path) -> None:
    code, out, _ = run("campaign", "status")
    assert code == 0
    assert "finished" in out
    assert "--html report.html" in out
    (state,) = json.loads(run("campaign", "status", "--json")[1])
    assert (state["name"], state["state"], state["tried"]) == ("tiny", "finished", 2)
    code, out, _ = run("campaign", "watch")
    assert code == 0
    assert "every task is done" in out
    assert "2 of at most 2 candidates" in out
    outlook = json.loads(run("campaign", "watch", "--json")[1])
    assert outlook["tasks"][0]["champion"]["candidate_id"]
    assert (folder / "vendored" / "simulator" / "double.py").exists()


def test_the_morning_is_told_in_every_form(run: Run, folder: Path) -> None:
    code, out, _ = run("report")
    assert code == 0
    assert out.startswith("# tiny: ")
    assert run("report", "--html", "report.html", "--md", "report.md")[0] == 0
    mark, _, told = (folder / "report.md").read_text().partition("\n")
    assert (mark, told) == ("<!-- Written by Kernelwright -->", out)
    assert (folder / "report.html").read_text().startswith(f"{mark}\n<!doctype html>")
    assert json.loads(run("report", "--json")[1])["name"] == "tiny"


def test_a_night_is_paused_watched_resumed_and_stopped(run: Run, folder: Path) -> None:
    longer = _NIGHT.replace("candidates = 2", "candidates = 40\nplateau = 40")
    _write_night(folder, longer.replace("tiny", "long").replace("8,32", "64,64"))
    night = subprocess.Popen(
        _command(folder, "run", "nightly.toml", "--quiet"), cwd=folder, stdout=subprocess.PIPE
    )
    _until(lambda: _long_run(run)["state"] == "running" and bool(_long_run(run)["tried"]))
    assert run("campaign", "pause")[0] == 0
    assert _long_run(run)["state"] == "paused"
    assert "holds still already" in run("campaign", "pause")[2]
    _until(lambda: "holds still; it goes on with" in run("campaign", "watch", "--once")[1])
    assert "to go on" in run("campaign", "resume")[1]
    assert _long_run(run)["state"] == "running"
    assert "it ends within seconds" in run("campaign", "stop")[1]
    assert night.wait(30) == 130
    assert "go on kernelwright campaign resume" in str(night.communicate()[0])
    assert _long_run(run)["state"] == "interrupted"
    assert "next    kernelwright campaign resume" in run("campaign", "watch", "long")[1]


def _long_run(run: Run) -> dict[str, object]:
    states = json.loads(run("campaign", "status", "--json")[1])
    return next((s for s in states if s["name"] == "long"), {"state": "", "tried": 0})


def _command(folder: Path, *arguments: str) -> list[str]:
    store = str(folder / "kernels.db")
    return [sys.executable, "-m", "kernelwright", "campaign", *arguments, "--store", store]


def _write_night(folder: Path, text: str) -> Path:
    (folder / "functions.py").write_text(_DOUBLE)
    (folder / "nightly.toml").write_text(text)
    return folder


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "it did not happen within 120 s"
        time.sleep(0.1)


def test_a_night_that_finds_no_champion_exits_with_one(run: Run, folder: Path) -> None:
    (folder / "kept.py").write_text("import mlx.core as mx\ndef kept(x):\n    return x @ x\n")
    night = _NIGHT.replace("tiny", "kept").replace("functions.py", "kept.py")
    (folder / "kept.toml").write_text(night.replace("f32[8,32]", "f32[32,32]"))
    code, output, _ = run("campaign", "run", "kept.toml", "--quiet")
    assert code == 1, output


def test_a_priority_is_a_number_that_ends(run: Run, folder: Path) -> None:
    (folder / "endless.toml").write_text(_NIGHT.replace("[export]", "priority = inf\n[export]"))
    code, _, errors = run("campaign", "check", "endless.toml")
    assert code == 1
    assert "priority" in errors


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("place", ["nightly.toml", "nightly.toml/deeper", "/proc/nope"])
def test_a_folder_that_takes_no_export_is_told_before_the_night(
    run: Run, folder: Path, command: str, place: str
) -> None:
    if place.startswith("/proc") and not Path("/proc").exists():
        pytest.skip("this system has no such folder")
    night = folder / "nightly.toml"
    night.write_text(night.read_text().replace("vendored", place))
    status, _, error = run("campaign", command, "nightly.toml")
    assert status == 1
    assert "expected a folder that can be written under [export], found" in error
    assert not (folder / "nightly.toml" / "deeper").exists()


def test_a_check_leaves_no_folder_behind(run: Run, folder: Path) -> None:
    night = folder / "nightly.toml"
    night.write_text(night.read_text().replace("vendored", "new/inner"))
    assert run("campaign", "check", "nightly.toml")[0] == 0
    assert not (folder / "new").exists()
