"""`kernelwright store …`: every command for people and as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.service.cli import main
from tests.service.conftest import Searched

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], searched: Searched
) -> Run:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("KERNELWRIGHT_STORE", searched.url)

    def type_in(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kernelwright", "store", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return type_in


@pytest.mark.parametrize(
    ("command", "words", "key"),
    [
        (("stats",), "champion", "rows"),
        (("wanted",), "Nothing is wanted", None),
        (("backup", "{folder}/copy.db"), "is copied to", "size_bytes"),
        (
            ("merge", "{store}", "{store}", "-o", "{folder}/c.db"),
            "from the second: nothing",
            "added",
        ),
        (("prune", "--dry-run"), "would forget 0 failed candidates", "candidates"),
        (("verify",), "1 current", None),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_answer_people_and_programs(
    run: Run, searched: Searched, tmp_path: Path, command: tuple[str, ...], words: str,
    key: str | None,
) -> None:  # fmt: skip
    def typed(folder: Path) -> list[str]:
        folder.mkdir()
        return [part.format(folder=folder, store=searched.url) for part in command]

    code, out, err = run(*typed(tmp_path / "people"))
    assert (code, err) == (0, "")
    assert words in " ".join(out.split())
    code, out, _ = run(*typed(tmp_path / "programs"), "--json")
    assert code == 0
    assert key is None or key in json.loads(out)


def test_verify_judges_again_on_request(run: Run) -> None:
    code, out, _ = run("verify", "--all", "--json")
    assert (code, [r["outcome"] for r in json.loads(out)]) == (0, ["fresh"])


def test_a_file_in_the_way_costs_one_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "copy.db").touch()
    code, _, err = run("backup", str(tmp_path / "copy.db"))
    assert code == 1
    assert err.count("\n") == 1
    assert "expected a file that is not there yet" in err


def test_a_store_is_not_shared_with_itself(run: Run, searched: Searched) -> None:
    path = Path(searched.url.removeprefix("sqlite:///"))
    around = path.parent / ".." / path.parent.name / path.name
    for same in (str(path), searched.url, str(around)):
        code, _, errors = run("sync", same)
        assert code == 2
        assert "expected another store than one's own" in errors


def test_one_way_is_one_way(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("sync", str(tmp_path / "other.db"), "--pull", "--push")
    assert code == 2
    assert "expected --pull or --push, found both" in errors
