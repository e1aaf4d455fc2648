"""A command imports what it needs, and no more."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kernelwright
from kernelwright.service.commands import COMMANDS, app
from kernelwright.service.lazy_group import CommandEntry, GroupEntry
from kernelwright.store import KernelStore

HEAVY = (
    *("mlx", "scipy", "anthropic", "openai", "optuna", "ziglang", "mlx_lm", "alembic", "mcp"),
    *("fastapi", "uvicorn", "psycopg", "procrastinate", "matplotlib", "keyring"),
)
_REPORT = f"""
import json, sys
from kernelwright.service.commands import app
found = {{}}
for line in json.loads(sys.argv[1]):
    try:
        app(line.split(), standalone_mode=False)
    except SystemExit:
        pass
    found[line] = [name for name in {HEAVY} if name in sys.modules]
sys.stderr.write(json.dumps(found))
"""


def test_commands_that_ask_the_store_import_no_mlx_and_no_model_client(tmp_path: Path) -> None:
    store = str(tmp_path / "kernels.db")
    with KernelStore(store):
        pass
    asking = ("best", "history", "store stats", "campaign status")
    lines = ["--help", "--version", f"campaign init {tmp_path}/nightly.toml", "campaign --help"]
    lines += [f"{command} --store {store}" for command in asking]
    lines += [f"{command} --json --store {store}" for command in asking]
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, json.dumps(lines)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert json.loads(done.stderr) == {line: [] for line in lines}


def test_help_lists_each_command_with_its_docstring() -> None:
    page = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300"}).output.split())
    for name, entry in COMMANDS.items():
        assert f"{name} {' '.join(entry.summary.split())}" in page


def _all_commands() -> list[tuple[str, CommandEntry]]:
    found = []
    for name, entry in COMMANDS.items():
        inner = entry.commands if isinstance(entry, GroupEntry) else {"": entry}
        found += [(f"{name} {sub}".strip(), command) for sub, command in inner.items()]
    return found


@pytest.mark.parametrize(("name", "entry"), _all_commands())
def test_every_command_loads_and_says_what_it_does(name: str, entry: CommandEntry) -> None:
    command = entry.load(name)
    assert command.help is not None
    assert " ".join(command.help.split()).startswith(" ".join(entry.summary.split()))


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(app, ["bset"])
    assert result.exit_code == 2
    assert "Did you mean 'best'" in result.output


def _rooms_that_import_lazily() -> list[str]:
    root = Path(kernelwright.__file__).parent
    files = root.rglob("__init__.py")
    lazy = [f for f in files if "offer_lazily(__name__)" in f.read_text(encoding="utf-8")]
    return sorted(".".join(("kernelwright", *f.parent.relative_to(root).parts)) for f in lazy)


@pytest.mark.parametrize("room", _rooms_that_import_lazily())
def test_a_lazy_package_offers_all_its_names(room: str) -> None:
    module = import_module(room)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_a_function_keeps_its_name_beside_the_module_of_that_name() -> None:
    code = (
        "import kernelwright.evaluator.evaluate, kernelwright.ir.verify, types\n"
        "from kernelwright import evaluator, ir\n"
        "print([isinstance(f, types.FunctionType) for f in (evaluator.evaluate, ir.verify)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, True]"


def test_an_unknown_name_of_a_lazy_package_is_an_attribute_error() -> None:
    from kernelwright import ir

    with pytest.raises(AttributeError, match=r"module 'kernelwright.ir' has no attribute 'captur'"):
        getattr(ir, "captur")  # noqa: B009
