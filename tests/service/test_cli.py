"""What a person types, and what comes back: results, one line for an error, JSON on request."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright.service.cli import main
from kernelwright.store import KernelStore
from tests.service.conftest import Searched


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
SOFTMAX = "import mlx.core as mx\ndef softmax(x):\n    return mx.softmax(x, axis=-1)\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "own.db"))

    def type_in(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["kernelwright", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return type_in


@pytest.mark.parametrize("module", ["kernelwright.errors", "typer", "mlx.core", "sqlalchemy"])
@pytest.mark.sampled(2)
def test_ctrl_c_while_the_commands_load_is_one_line(module: str) -> None:
    program = f"""
import builtins, sys
real = builtins.__import__
def load(name, *rest):
    if name == {module!r}:
        raise KeyboardInterrupt
    return real(name, *rest)
sys.argv = ["kernelwright", "doctor"]
from kernelwright.service.cli import main
builtins.__import__ = load
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_in_a_command_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("raise KeyboardInterrupt\n")
    ended = run("plan", str(tmp_path / "long.py"))
    assert (ended.code, ended.out, ended.err) == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        (SOFTMAX, ("nowhere.py",), "expected a Python file, found nothing at 'nowhere.py'"),
        (SOFTMAX, ("{file}:missing",), "has no function 'missing'; it has: softmax"),
        (
            "value = 3",
            ("{file}:value", "-i", "f32[2]"),
            "to be a function of MLX arrays, found int",
        ),
        (SOFTMAX, ("{file}", "-i", "f32[2]", "-i", "f32[2]"), "cannot be called with 2 positional"),
        (SOFTMAX, ("{file}",), "does not say what its inputs look like"),
        (SOFTMAX, ("{file}", "-i", "f31[2]"), "expected a dtype, one of"),
        (SOFTMAX, ("{file}", "-i", "f32[2;3]"), "expected an input such as 'bf16[2048,4096]'"),
        (
            "def f(x):\n    return x if x.sum() > 0 else -x\n",
            ("{file}", "-i", "f32[2]"),
            "looks at the values of an array while it is traced",
        ),
        ("def f(x):\n    return 'text'\n", ("{file}", "-i", "f32[2]"), "returns str ('text')"),
        (
            SOFTMAX,
            ("{file}", "-i", "f32[2]", "--device", "metal", "--threadgroup-memory", "96K"),
            "expected 32 KB of threadgroup memory on metal, all that an Apple GPU has, found 96 KB",
        ),
        (
            SOFTMAX,
            ("{file}", "-i", "f32[2]", "--device", "cuda", "--threadgroup-memory", "228K"),
            "expected 32 KB to 227 KB of threadgroup memory on cuda, found 228 KB",
        ),
        (
            SOFTMAX,
            ("{file}", "-i", "f32[2]", "--threadgroup-memory", "much"),
            "expected a size such as 96K or 98304, found 'much'",
        ),
        ("def f(x):\n    return x.nope\n", ("{file}", "-i", "f32[2]"), "raised AttributeError"),
    ],
)
def test_a_bad_request_is_one_line_and_leaves_no_store(
    run: Run, tmp_path: Path, text: str, arguments: tuple[str, ...], sentence: str
) -> None:
    file = tmp_path / "functions.py"
    file.write_text(text)
    outcome = run("search", *(a.format(file=file) for a in arguments))
    # An option that cannot be read is misuse; what the function or the machine cannot do fails.
    unread = ("expected a size", "expected a dtype", "expected an input")
    assert outcome.code == (2 if sentence.startswith(unread) else 1)
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "own.db").exists()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "has schema 9999"),
        ("DROP TABLE alembic_version", "belongs to another program"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line(
    run: Run, tmp_path: Path, damage: str, sentence: str
) -> None:
    path = tmp_path / "own.db"
    KernelStore(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    before = path.read_bytes()
    outcome = run("search", _softmax(tmp_path), "-i", "f32[4,8]")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert sentence in outcome.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [("best",), ("history",), ("show", "abcd"), ("store", "stats")])
def test_asking_before_anything_was_searched_says_how_to_begin(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    outcome = run(*command)
    assert outcome.code == 1
    assert "yet; run `kernelwright search FILE.py` first" in outcome.err
    assert not (tmp_path / "own.db").exists()


def test_best_lists_the_champion_and_the_next_command(run: Run, searched: Searched) -> None:
    outcome = run("best", "--store", searched.url)
    assert outcome.code == 0
    assert searched.champion_id[:8] in outcome.out
    assert "MLX is best for 1 task of these" in outcome.out


def test_best_without_a_match_finds_nothing(run: Run, searched: Searched) -> None:
    outcome = run("best", "--op", "conv", "--store", searched.url)
    assert outcome.code == 1
    assert "No champion" in outcome.out


def test_show_prints_source_launch_and_verdict(run: Run, searched: Searched) -> None:
    outcome = run("show", searched.champion_id[:8], "--store", searched.url)
    for expected in ("thread_position_in_grid", "grid", "threadgroup", "correct", "evaluation"):
        assert expected in outcome.out


def test_show_source_is_the_text_alone(run: Run, searched: Searched) -> None:
    outcome = run("show", searched.champion_id[:8], "--source", "--store", searched.url)
    with KernelStore(searched.url) as store:
        assert store.show(searched.champion_id).program.kernels[0].source in outcome.out


def test_an_unknown_id_is_one_line(run: Run, searched: Searched) -> None:
    outcome = run("show", "ffffffffffff", "--store", searched.url)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "no candidate in the store has an id that begins with 'ffffffffffff'" in outcome.err


@pytest.mark.parametrize(
    "command",
    [
        ("best",),
        ("history",),
        ("show", "{id}"),
        ("store", "stats"),
        ("export", "{id}", "-o", "{out}", "--slower"),
    ],
    ids=lambda command: command[0],
)
def test_json_on_every_command_that_prints_a_result(
    run: Run, searched: Searched, tmp_path: Path, command: tuple[str, ...]
) -> None:
    arguments = [a.format(id=searched.champion_id[:8], out=tmp_path / "out") for a in command]
    outcome = run(*arguments, "--json", "--store", searched.url)
    assert outcome.code == 0
    assert json.loads(outcome.out)


@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
def test_a_search_is_no_campaign(run: Run, searched: Searched, command: str) -> None:
    with KernelStore(searched.url) as store:
        (campaign, *_) = store.campaigns()
    done = run("campaign", command, campaign.id[:8], "--store", searched.url)
    assert (done.code, done.out) == (1, "")
    words = f"{campaign.id[:8]} is a search, not a campaign with a file; Ctrl-C ends it"
    assert words in done.err


def test_export_writes_a_module_its_tests_and_says_how_to_use_them(
    run: Run, searched: Searched, tmp_path: Path
) -> None:
    out = tmp_path / "vendored"
    where = ("-o", str(out), "--store", searched.url, "--slower")
    outcome = run("export", searched.champion_id[:8], *where)
    assert outcome.code == 0
    written = {"double.py", "test_double.py", "VERIFICATION.md", "kernelwright.json"}
    assert {p.name for p in out.iterdir()} == written
    assert "from double import double" in outcome.out


def test_export_into_a_file_is_one_line(run: Run, searched: Searched, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = str(tmp_path / "file")
    where = ("-o", out, "--store", searched.url, "--slower")
    outcome = run("export", searched.champion_id[:8], *where)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "expected a folder to write to" in outcome.err


def test_a_search_names_what_mlx_keeps_and_repeats_nothing(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text("import mlx.core as mx\ndef f(x, y):\n    return mx.exp(x @ y) * 2\n")
    command = ("search", str(file), "-i", "f32[96,16]", "-i", "f32[16,96]", "--candidates", "2")
    first = run(*command)
    assert first.code == 0
    assert "0 of 1 task faster than MLX" in first.out
    assert "matmul" in first.out
    again = run(*command, "--json")
    if " 2/2 " not in first.out or first.out.count("confirmed") != 1:
        again = run(*command, "--json")  # A busy machine's timeout is tried once more, no verdict.
    report = json.loads(again.out)
    assert report["evaluated"] == 0, first.out
    assert report["tasks"][0]["reused"] == report["tasks"][0]["tried"] == 2


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("kernelwright 0.")
    helped = run("--help").out
    for command in ("search", "best", "show", "history", "export", "verify", "doctor", "devices"):
        assert command in helped


def _softmax(folder: Path) -> str:
    path = folder / "functions.py"
    path.write_text(SOFTMAX)
    return str(path)


ROOMY = """\
threadgroup float tile[15040];
uint i = thread_index_in_threadgroup;
for (uint j = i; j < 15040; j += 64) tile[j] = x[j % 64] + 1.0f;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = tile[14976 + i];
"""


def test_a_lifted_limit_of_threadgroup_memory_admits_a_kernel_and_says_that_no_mac_runs_it(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "plus.py").write_text("def plus(x):\n    return x + 1\n")
    (tmp_path / "plus.metal").write_text(ROOMY)
    arguments = ["verify", str(tmp_path / "plus.metal"), "--task", str(tmp_path / "plus.py")]
    arguments += ["-i", "f32[64]", "-g", "64", "-t", "64", "--names", "x->y"]
    refused = run(*arguments)
    assert refused.code == 1
    assert "60160 bytes, this device has 32768" in " ".join(refused.out.split())
    admitted = run(*arguments, "--threadgroup-memory", "64K")
    assert admitted.code == 0
    assert "64 KB threadgroup memory" in admitted.out
    assert "It is not for Macs" in admitted.out


def test_a_search_under_a_lifted_limit_crowns_its_own_champion(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("import mlx.core as mx\ndef f(x):\n    return mx.exp(x) * 2\n")
    arguments = ("search", str(tmp_path / "f.py"), "-i", "f32[4,64]", "--candidates", "1", "-q")
    assert run(*arguments).code == 0
    assert run(*arguments, "--threadgroup-memory", "96K").code == 0
    champions = json.loads(run("best", "--json").out)
    chips = {c["chip"].partition(", ")[2] for c in champions}
    assert chips == {"", "96 KB threadgroup memory"}


def test_a_reader_that_is_gone_ends_the_command_with_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright", "--help"],
            stdout=writer,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=300,
        )
    finally:
        os.close(writer)
    assert done.returncode == 141


_FULL = Path("/dev/full")


@pytest.mark.skipif(not _FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("line", ["--help", "catalog", "catalog --json", "--version"])
@pytest.mark.sampled(2)
def test_a_disk_that_is_full_under_the_output_is_one_sentence(line: str) -> None:
    with _FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright", *line.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error standard output cannot be written: No space left on device; write it elsewhere.\n"
    )


@pytest.mark.skipif(not _FULL.exists(), reason="this system has no device that is always full")
def test_errors_that_cannot_be_written_leave_the_exit_code() -> None:
    with _FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright", "show", "zz"], stderr=full, check=False
        )
    assert done.returncode == 1
