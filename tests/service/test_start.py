"""Commands that ask the store begin quickly: they import what they need and nothing else."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.service import commands
from kernelwright.service.cli import main
from tests.service.conftest import Searched

_LOOK = """
import sys
from kernelwright.service.cli import main
sys.argv = ["kernelwright", *sys.argv[1:]]
try:
    main()
except SystemExit as e:
    print("EXIT", e.code)
print("LOADED", *sys.modules)
"""
_SLOW = (
    *(
        "mlx",
        "numpy",
        "scipy",
        "pydantic_settings",
        "alembic",
        "tenacity",
        "jinja2",
        "procrastinate",
    ),
    *("tree_sitter", "sqlalchemy.dialects.postgres", "rich.live", "rich.markdown"),
    *("kernelwright.campaign.execution", "kernelwright.plan", "kernelwright.ir.ops"),
    *("kernelwright.agents.session.live", "kernelwright.agents.roles", "kernelwright.runtime"),
)


def _started(folder: Path, *words: str) -> tuple[str, str, list[str]]:
    """Run a command in a process of its own; return its output, its errors and its modules."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    said, _, modules = done.stdout.partition("LOADED ")
    return said, done.stderr, modules.split()


@pytest.mark.parametrize(
    "command",
    [
        ("best",),
        ("history",),
        ("show", "CHAMPION"),
        ("campaign", "status"),
        ("store", "stats"),
        ("store", "wanted"),
        ("report",),
    ],
    ids=" ".join,
)
@pytest.mark.sampled(3)
def test_asking_imports_neither_arrays_nor_planning_nor_models(
    command: tuple[str, ...], searched: Searched, tmp_path: Path
) -> None:
    asked = [searched.champion_id if word == "CHAMPION" else word for word in command]
    said, errors, modules = _started(tmp_path, *asked, "--store", searched.url)
    assert "EXIT 0" in said, errors
    assert "kernelwright.store.store" in modules
    slow = [name for name in modules if name.startswith(_SLOW)]
    assert [
        name for name in slow if not (command == ("report",) and name.startswith("jinja2"))
    ] == []


_ABSENT = {
    "search none.py": "found nothing at 'none.py'",
    "search none.py:f none.py:g": "found nothing at 'none.py'",
    "plan none.py": "found nothing at 'none.py'",
    "bench none.py": "found nothing at 'none.py'",
    "export none.py:f -o out": "found nothing at 'none.py'",
    "verify body.metal --task none.py": "found nothing at 'none.py'",
    "redteam none.py": "found nothing at 'none.py'",
    "run none.py": "found nothing at 'none.py'",
    "tune none.py:model": "found nothing at 'none.py'",
    "campaign check none.toml": "found nothing readable at 'none.toml'",
    "campaign run none.toml": "found nothing readable at 'none.toml'",
    "verify 0123456789": "no candidate",
    "export 0123456789 -o out": "no candidate",
    "serve --store none.db": "there is no store",
    "worker --database none.db": "expected a PostgreSQL store",
}
_LOOK_AT_EACH = """
import json, sys
from kernelwright.service.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["kernelwright", *words.split()]
    print(words, file=sys.stderr)
    try:
        main()
    except SystemExit as e:
        print(e.code, "mlx.core" in sys.modules)
"""


def test_what_is_not_there_is_said_before_mlx_is_loaded(searched: Searched, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOOK_AT_EACH, json.dumps(list(_ABSENT))],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "KERNELWRIGHT_STORE": searched.url},
    )
    told = " ".join(done.stderr.split())
    for command, words in _ABSENT.items():
        assert words in told.partition(f"{command} error ")[2].partition(" error ")[0]
    assert done.stdout.splitlines() == ["1 False"] * len(_ABSENT)


def test_devices_are_listed_without_a_store_and_without_judging(tmp_path: Path) -> None:
    said, errors, modules = _started(tmp_path, "devices")
    assert "EXIT 0" in said, errors
    slow = ("sqlalchemy", "scipy", "kernelwright.store.store", "kernelwright.evaluator.stages")
    assert [name for name in modules if name.startswith(slow)] == []


def test_cycles_are_searched_for_as_usual_once_commands_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, callbacks = gc.get_threshold(), list(gc.callbacks)
    seen = []

    def work(**options: object) -> None:
        seen.append((gc.get_threshold(), list(gc.callbacks)))

    monkeypatch.setattr(commands, "app", work)
    with pytest.raises(SystemExit):
        main()
    # An exception in what the collector calls is lost, Ctrl-C too.
    assert seen == [(usual, callbacks)]
    assert gc.get_threshold() == usual
