"""Numbers on the command line: whatever is given, the command takes it or says what it takes."""

from typing import get_args

import pytest
from typer.core import TyperArgument, TyperOption
from typer.testing import CliRunner

from kernelwright.errors import UsageError
from kernelwright.service.commands import app
from tests.service.test_command_line import all_commands


def _numbers() -> list[tuple[str, str]]:
    found = []
    for name, entry in all_commands():
        for parameter in entry.load(name).params:
            if isinstance(parameter, TyperOption | TyperArgument):
                annotation = parameter.type_descriptor.annotation
                if {annotation, *get_args(annotation)} & {int, float}:
                    found.append((name, parameter.opts[-1]))
    return found


_HUGE = ("9" * 30, "-" + "9" * 30, "1e400", "nan", "inf", "-inf", "9" * 5000)


@pytest.mark.parametrize(("name", "option"), _numbers())
@pytest.mark.sampled(24)
def test_a_number_that_nothing_takes_is_misuse(name: str, option: str) -> None:
    assert option.startswith("--"), "every number is an option"
    for value in _HUGE:
        done = CliRunner().invoke(app, [*name.split(), f"{option}={value}"])
        is_misuse = done.exit_code == 2 or isinstance(done.exception, UsageError)
        assert is_misuse, (value, done.output, done.exception)
        assert "Traceback" not in done.output
        assert len(done.output) < 1500


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("history --limit 1000000000000", ""),
        ("store prune --days 36500 --dry-run", ""),
        ("store wanted --limit 1000000000000", ""),
        ("best --limit 1000000000000", ""),
        ("campaign resume --hours 0", "greater than or equal to 0.001"),
    ],
)
def test_the_largest_numbers_are_taken(command: str, says: str, empty_store: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--store", empty_store])
    assert says in " ".join(done.output.split())
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_help_shows_a_commands_own_bounds_alone() -> None:
    page = CliRunner().invoke(app, ["history", "--help"], env={"COLUMNS": "200"}).output
    assert "1000000000000" not in page
    assert ">=1" in page
