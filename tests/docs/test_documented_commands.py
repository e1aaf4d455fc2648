"""What the documents tell people to type: every command parses, and the tutorials run."""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from kernelwright.service.cli import main
from kernelwright.service.commands import app

_ROOT = Path(__file__).parents[2]
_PAGES = (_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md")))
_CODE = re.compile(
    r"^(?:```(?P<head>[^\n]*)\n(?P<fenced>.*?)^```|(?: {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="(?P<name>[^"]+)"')


@dataclass(frozen=True)
class _Block:
    head: str
    text: str


def _blocks(page: Path) -> Iterator[_Block]:
    for match in _CODE.finditer(page.read_text(encoding="utf-8")):
        if match["head"] is None:
            yield _Block("", re.sub(r"^ {4}", "", match[0], flags=re.MULTILINE))
        else:
            yield _Block(match["head"], match["fenced"])


def _documented() -> Iterator[tuple[str, str]]:
    for page in _PAGES:
        for block in _blocks(page):
            for line in block.text.splitlines():
                command = line.removeprefix("$ ").partition("  #")[0].strip()
                if command.startswith("kernelwright ") and "…" not in command:
                    yield page.name, command


@pytest.mark.parametrize(("page", "command"), list(dict.fromkeys(_documented())))
def test_a_documented_command_parses(page: str, command: str) -> None:
    arguments = shlex.split(command)[1:]
    group, name = get_command(app), "kernelwright"
    while isinstance(group, TyperGroup) and arguments:
        if arguments[0].startswith("-"):
            return
        context = typer.Context(group, info_name=name)
        name = arguments.pop(0)
        found = group.get_command(context, name)
        assert found is not None, f"{page}: no command {name!r} in {command!r}"
        group = found
    group.make_context(name, arguments)


def test_the_documents_name_commands() -> None:
    assert len(set(_documented())) > 50


@pytest.mark.slow
@pytest.mark.parametrize("page", ["first-kernel.md", "first-night.md"])
def test_a_tutorial_runs_as_it_is_written(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "kernels.db"))
    for block in _blocks(_ROOT / "docs" / "tutorials" / page):
        if title := _TITLE.search(block.head):
            Path(title["name"]).write_text(block.text)
        if block.head == "console":
            for line in block.text.splitlines():
                monkeypatch.setattr(sys, "argv", shlex.split(line.removeprefix("$ ")))
                with pytest.raises(SystemExit) as ended:
                    main()
                assert ended.value.code in (0, None), line
