"""Names and texts of users are printed as they are, never read as markup."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

import kernelwright
from kernelwright.metal.device.registry import open_device
from kernelwright.search.spec import SearchSpec
from kernelwright.service.commands import app
from kernelwright.service.console import error_console, result_console
from kernelwright.service.python.html import as_html, as_text, page
from kernelwright.store import Environment, KernelStore

SPEC = SearchSpec().model_dump_json()
HOSTILE = "[/red] [bold]x[/] :x: [link=file:///etc]"


def _printed(console: Console) -> str:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    with console.capture() as captured:
        console.print(HOSTILE, soft_wrap=True)
        console.print(table, width=300)
    return captured.get()


@pytest.mark.parametrize("console", [result_console, error_console])
def test_no_console_reads_markup(console: Callable[[], Console]) -> None:
    assert _printed(console()).count(HOSTILE) == 4


def test_notebooks_and_texts_read_none() -> None:
    assert HOSTILE in as_text(HOSTILE)
    assert "[/red]" in as_html(HOSTILE)
    assert HOSTILE in page(lambda console: console.print(HOSTILE)).plain


def test_every_console_is_made_without_markup() -> None:
    package = Path(kernelwright.__file__).parent
    made = [
        (path.name, call[0])
        for path in package.rglob("*.py")
        for call in re.finditer(
            r"(?<!\w)(?<!class )(?:Safe)?Console\((?!quiet)[^()]*(?:\(\))?[^()]*\)",
            path.read_text(),
        )
    ]
    assert made
    assert [name for name, call in made if "markup=False" not in call] == []


def test_a_campaign_of_any_name_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'kernels.db'}"
    with KernelStore(url) as store:
        environment = Environment(device=open_device("simulator").info, mlx="1", system="test")
        store.begin_campaign(name=HOSTILE, spec=SPEC, environment=environment)
    monkeypatch.setenv("COLUMNS", "300")
    result_console.cache_clear()
    found = CliRunner().invoke(app, ["campaign", "status", "--store", url])
    assert found.exception is None
    assert "[/red] [bold]x[/] :x:" in found.output
