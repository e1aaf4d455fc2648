"""Where a project's settings stand, and whether there are any."""

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.errors import InputError
from kernelwright.variable import variable_of

if TYPE_CHECKING:
    from kernelwright.settings import Settings

FILE = "kernelwright.toml"
PROJECT_FILE = "pyproject.toml"
TABLE = "kernelwright"


@dataclass(frozen=True)
class SettingsFile:
    """A file with settings, as it was found."""

    path: Path
    values: Mapping[str, object]


def given_settings(names: Collection[str]) -> "Settings | None":
    """Return the settings that hold in the working folder; None where nothing gives `names`.

    Without a file of settings and without their variables, what reads settings is not imported.

    Raises:
        InputError: a file or a variable says what no setting takes.
    """
    is_given = any(os.environ.get(variable_of(name)) for name in names)
    if not is_given and find_settings_file(Path.cwd()) is None:
        return None
    from kernelwright.settings import current_settings

    return current_settings()


def find_settings_file(folder: Path) -> SettingsFile | None:
    """Return the settings of the nearest folder upwards that has any.

    Raises:
        InputError: its file cannot be read, is no TOML, or has no table where there should be one.
    """
    for parent in (folder.resolve(), *folder.resolve().parents):
        # What has the name and cannot be read is an error, as a folder or a link to nothing.
        if os.path.lexists(path := parent / FILE):
            return SettingsFile(path, _toml(path))
        if (path := parent / PROJECT_FILE).is_file():
            tools = _toml(path).get("tool")
            table = tools.get(TABLE) if isinstance(tools, dict) else None
            if table is not None and not isinstance(table, dict):
                raise InputError(
                    f"expected [tool.{TABLE}] in {path} to be a table, found {table!r}."
                )
            if table is not None:
                return SettingsFile(path, table)
    return None


def _toml(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InputError(f"{path} is no TOML: {e}.") from e
    except OSError as e:
        raise InputError(f"{path} cannot be read: {e.strerror}.") from e
