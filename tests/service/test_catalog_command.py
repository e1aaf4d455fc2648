"""`kernelwright catalog`: the ready tasks, on the page and as JSON."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kernelwright import catalog
from kernelwright.errors import InputError
from kernelwright.service.commands import app
from kernelwright.service.console import THEME
from kernelwright.service.view.catalog import print_catalog


@pytest.mark.parametrize("width", [60, 80, 140])
def test_every_task_is_listed_whatever_the_width(width: int) -> None:
    console = Console(theme=THEME, file=io.StringIO(), width=width, highlight=False)
    print_catalog(console, catalog.entries())
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    for entry in catalog.entries():
        assert entry.name in text
    assert f"{len(catalog.entries())} tasks" in text


def test_the_command_prints_the_page() -> None:
    output = _typed("catalog", "--group", "bits").output
    assert "pack_bits" in output
    assert "softmax_by_hand" not in output


def test_one_group_alone() -> None:
    listed = json.loads(_typed("catalog", "--group", "scan", "--json").output)
    assert {task["group"] for task in listed} == {"scan"}
    assert len(listed) == sum(entry.group == "scan" for entry in catalog.entries())


def test_an_unknown_group_is_one_sentence() -> None:
    result = _typed("catalog", "--group", "nothing")
    with pytest.raises(InputError, match=r"expected a group, one of activation, .*found 'nothing'"):
        raise result.exception or AssertionError


def test_a_ready_task_is_searched_by_its_name(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "kernels.db"))
    limits = ("--candidates", "1", "--jobs", "1", "--quiet", "--json")
    result = _typed("search", "catalog:pack_bits", *limits, *store)
    assert result.exit_code == 0
    (task,) = json.loads(result.stdout)["tasks"]
    assert task["champion_id"]


def _typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
