"""The reference is written from the code: nothing that a user can type is missing in it."""

import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

import kernelwright
from kernelwright.campaign.spec.campaign_table import CampaignCaps
from kernelwright.service.campaign_control import status_table
from kernelwright.service.commands import COMMANDS
from kernelwright.service.console import THEME
from kernelwright.service.lazy_group import GroupEntry
from kernelwright.settings import Settings
from kernelwright.store.schema import Base

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ref", _ROOT / "scripts" / "docs_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_stands_in_the_reference(reference: ModuleType) -> None:
    page = reference.command_page()
    for name, entry in COMMANDS.items():
        assert f"## {name}\n" in page
        for inner in entry.commands if isinstance(entry, GroupEntry) else ():
            assert f"### {name} {inner}\n" in page
    assert "`-o`, `--output` `FOLDER`" in page


def test_every_setting_and_every_extra_stands_in_the_reference(reference: ModuleType) -> None:
    page = reference.settings_page()
    assert all(f"| `{name}` | `KERNELWRIGHT_" in page for name in Settings.model_fields)
    assert "| `search` | anthropic, httpx2" in page


def test_every_key_of_a_campaign_stands_in_the_reference(reference: ModuleType) -> None:
    page = reference.campaign_page()
    assert "## `[[functions]]`" in page
    assert all(f"| `{key}` |" in page for key in CampaignCaps.model_fields)
    assert "| `plateau` | int | `8` | correct candidates in a row" in page


def test_every_public_name_stands_in_the_reference(reference: ModuleType) -> None:
    page = reference.python_page()
    assert all(f"::: kernelwright.{name}\n" in page for name in kernelwright.__all__)


def test_every_table_of_the_store_stands_in_the_reference(reference: ModuleType) -> None:
    page = reference.store_page()
    assert all(f"## {name}\n" in page for name in Base.metadata.tables)


def test_what_a_page_links_outside_the_documents_is_in_the_site(reference: ModuleType) -> None:
    docs = _ROOT / "docs"
    brought = {path.relative_to(_ROOT) for path in reference.linked_reports(docs)}
    lost = []
    for page in docs.rglob("*.md"):
        text = reference.inwards(page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#\s:]+)", text):
            target = (page.parent / link).resolve()
            if not target.is_relative_to(docs) or (
                not target.exists() and target.relative_to(docs).parts[0] == "benchmarks"
            ):
                inside = target.relative_to(docs) if target.is_relative_to(docs) else target
                lost += [(page.name, link)] if inside not in brought else []
    assert lost == []


@pytest.mark.slow
def test_the_site_builds_and_its_links_hold(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "reference" / "cli" / "index.html").is_file()


def test_every_link_of_the_documents_leads_somewhere(reference: ModuleType) -> None:
    written = {(_ROOT / "docs" / name).resolve() for name in reference.PAGES}
    pages = [_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")]
    lost = [
        (page.name, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", link)
        and not (page.parent / link).exists()
        and (page.parent / link).resolve() not in written
    ]
    assert lost == []


def test_documents_show_the_state_of_campaigns_as_it_is_printed() -> None:
    console = Console(file=io.StringIO(), width=120, theme=THEME)
    console.print(status_table([]))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue().split()
    pages = (_ROOT / "docs").rglob("*.md")
    lines = [line for page in pages for line in page.read_text().splitlines()]
    heads = [line.split() for line in lines if line.startswith("campaign  ")]
    assert heads
    assert all(head == printed for head in heads)
