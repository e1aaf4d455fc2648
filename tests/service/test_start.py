"""Commands that ask the store begin quickly: they import what they need and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "command",
    [
        ("best",),
        ("history",),
        ("show", "CHAMPION"),
        ("campaign", "status"),
        ("store", "stats"),
        ("report",),
    ],
    ids=" ".join,
)
def test_asking_imports_neither_arrays_nor_planning_nor_models(
    command: tuple[str, ...], searched: Searched, tmp_path: Path
) -> None:
    asked = [searched.champion_id if word == "CHAMPION" else word for word in command]
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *asked, "--store", searched.url],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    said, _, modules = done.stdout.partition("LOADED ")
    assert "EXIT 0" in said, done.stderr
    assert "kernelwright.store.store" in modules.split()
    slow = [name for name in modules.split() if name.startswith(_SLOW)]
    assert [
        name for name in slow if not (command == ("report",) and name.startswith("jinja2"))
    ] == []
