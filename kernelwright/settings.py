"""A project's settings: `kernelwright.toml`, or `[tool.kernelwright]` of a `pyproject.toml`.

The nearest folder upwards that has one counts. An option on the command line wins over an
environment variable, that over the file, and the file over the default.
"""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from kernelwright.errors import InputError
from kernelwright.settings_file import FILE, PROJECT_FILE, SettingsFile, find_settings_file
from kernelwright.validation import LARGEST, MOST_JOBS, reason_of
from kernelwright.variable import PREFIX, check_variables, variable_of

_MOST = int(LARGEST)
DEFAULT = "default"
"""The origin of a setting that nobody chose."""
_KEPT_FOLDERS = 64


def _listed(value: object) -> object:
    """Read one name, or several between commas, as a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if value is None or isinstance(value, list | tuple):
        return value
    raise ValueError("a text or a list of texts")


def _known_chip(name: str) -> str:
    # What chips there are is known where times are predicted, which few commands need.
    from kernelwright.metal.perf.profile import PROFILES, find_profile

    try:
        find_profile(name)
    except InputError as e:
        raise ValueError(f"one of {', '.join(PROFILES)}") from e
    return name


def _a_size(text: str) -> str:
    from kernelwright.metal.device.threadgroup_memory import read_size

    try:
        read_size(text)
    except InputError as e:
        raise ValueError("a size such as 96K or 98304") from e
    return text


def _with_providers(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(":" in name or name == "none" for name in names):
        raise ValueError("a provider and a model's name, such as 'anthropic:NAME'")
    return names


class Settings(BaseSettings):
    """What a project or a machine chooses once; None leaves the default."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    store: str | None = Field(None, min_length=1, description="A path or any SQLAlchemy URL.")
    device: Literal["simulator", "metal", "cuda"] | None = Field(
        None, description="Where candidates run."
    )
    chip: Annotated[str, AfterValidator(_known_chip)] | None = Field(
        None, description="Whose time is predicted, such as m4-pro."
    )
    threadgroup_memory: Annotated[str, AfterValidator(_a_size)] | None = Field(
        None, description="What a threadgroup may take, such as 32K."
    )
    model: Annotated[
        Annotated[tuple[str, ...], AfterValidator(_with_providers)] | None,
        NoDecode,
        BeforeValidator(_listed),
    ] = Field(None, description="Whom to ask: provider:NAME; several step in for one another.")
    base_url: str | None = Field(None, description="Where the models are served.")
    budget: float | None = Field(
        None, ge=0, le=LARGEST, description="The most dollars that models may cost."
    )
    tokens: int | None = Field(
        None, ge=1, le=_MOST, description="The most tokens that models may use."
    )
    calls: int | None = Field(None, ge=1, le=_MOST, description="The most calls to models.")
    candidates: int | None = Field(
        None, ge=1, le=_MOST, description="The most candidates for a task."
    )
    repairs: int | None = Field(
        None, ge=0, le=_MOST, description="How often a failed program is repaired."
    )
    jobs: int | None = Field(
        None, ge=1, le=MOST_JOBS, description="Candidates to evaluate at once."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over what a file says, which is given as arguments."""
        return env_settings, init_settings


@dataclass(frozen=True)
class Origin:
    """One setting, its value and where that came from."""

    name: str
    value: object
    source: str
    """A file's path, an environment variable, or `default`."""


def current_settings(folder: Path | None = None) -> Settings:
    """Return the settings that hold in a folder, the working folder by default.

    Raises:
        InputError: a file or a variable says what no setting takes.
    """
    check_variables()
    folder = (folder or Path.cwd()).resolve()
    held = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    return _read(folder, tuple(sorted(held.items())), _stamp(folder))


def origins(folder: Path | None = None) -> tuple[Origin, ...]:
    """Say of each setting what it is and where that was said.

    Raises:
        InputError: as of `current_settings`.
    """
    settings = current_settings(folder)
    file = find_settings_file(folder or Path.cwd())
    found = []
    for name in Settings.model_fields:
        source = DEFAULT
        if os.environ.get(variable_of(name)):
            source = variable_of(name)
        elif file is not None and name in file.values:
            source = str(file.path)
        found.append(Origin(name, getattr(settings, name), source))
    return tuple(found)


@lru_cache(_KEPT_FOLDERS)
def _read(
    folder: Path, variables: tuple[tuple[str, str], ...], stamp: tuple[tuple[Path, int], ...]
) -> Settings:
    """Read settings once for each folder, environment and version of the file."""
    file = find_settings_file(folder)
    values = dict(file.values) if file else {}
    if file is not None:
        _check_names(file)
        if isinstance(store := values.get("store"), str) and _is_path(store):
            values["store"] = str(file.path.parent / Path(store).expanduser())
    try:
        return Settings(**cast("dict[str, None]", values))
    except ValidationError as e:
        raise InputError(_sentence(e, file)) from e


def _is_path(store: str) -> bool:
    return bool(store) and "://" not in store


def _stamp(folder: Path) -> tuple[tuple[Path, int], ...]:
    """Return what changes when a file of settings is written, changed or removed."""
    found = []
    for parent in (folder, *folder.parents):
        for name in (FILE, PROJECT_FILE):
            try:
                found.append((parent / name, (parent / name).stat().st_mtime_ns))
            except OSError:
                continue
    return tuple(found)


def _check_names(file: SettingsFile) -> None:
    for name in file.values:
        if name in Settings.model_fields:
            continue
        near = get_close_matches(name, Settings.model_fields, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {_known()}."
        raise InputError(f"{file.path} sets {name!r}, which is no setting; {hint}")


def _known() -> str:
    return ", ".join(Settings.model_fields)


def _sentence(error: ValidationError, file: SettingsFile | None) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0])
    given: object = os.environ.get(variable_of(name))
    place = variable_of(name)
    if file is not None and not given:
        given, place = file.values[name], f"{name} in {file.path}"
    return f"expected {place} to be {reason_of(first)}, found {given!r}."
