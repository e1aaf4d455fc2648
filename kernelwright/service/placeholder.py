"""What stands for an option's value on a help page: a word that says what to write."""

from pathlib import Path

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_WORDS = {
    "inputs": "TYPE",
    "model": "PROVIDER:NAME",
    "base_url": "URL",
    "store": "PATH|URL",
    "output": "FOLDER",
    "budget": "DOLLARS",
    "dollars": "DOLLARS",
    "task_budget": "DOLLARS",
    "hours": "HOURS",
    "days": "DAYS",
    "seconds": "SECONDS",
    "task_seconds": "SECONDS",
    "battery_seconds": "SECONDS",
    "timeout": "SECONDS",
    "limit_s": "SECONDS",
    "grid": "THREADS",
    "threadgroup": "THREADS",
    "shape": "SIZES",
    "template": "NAME=VALUE",
    "buffer": "NAME=VALUE",
    "constant": "NAME=VALUE",
    "threadgroup_bytes": "NAME=BYTES",
    "names": "INPUTS->OUTPUTS",
    "include": "FOLDER",
    "folder": "FOLDER",
    "campaign": "CAMPAIGN",
    "task": "FINGERPRINT",
    "case": "CASE",
    "through": "STAGE",
    "only": "WORD",
    "batch": "COUNT",
    "database": "URL",
    "macos": "VERSION",
    "gpu": "INDEX",
    "seed": "NUMBER",
    "host": "ADDRESS",
    "port": "PORT",
}
_BY_TYPE: dict[object, str] = {int: "COUNT", float: "NUMBER", Path: "FILE"}


def name_placeholders(command: TyperCommand | TyperGroup) -> None:
    """Give each option a placeholder that says what to write; arguments name themselves."""
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            parameter.display_type = _nothing  # type: ignore[assignment, method-assign]
        elif isinstance(parameter, TyperOption):
            name_placeholder(parameter)


def name_placeholder(option: TyperOption) -> None:
    """Give an option a placeholder, unless it has one; a flag takes nothing."""
    if option.metavar is None:
        option.metavar = _placeholder(option)


def _placeholder(option: TyperOption) -> str:
    described = option.type_descriptor
    if option.is_flag:
        return ""
    if option.name in _WORDS:
        return _WORDS[option.name]
    if described.is_choice and option.show_choices:
        return "|".join(str(getattr(c, "value", c)) for c in described.choices or ())
    return _BY_TYPE.get(described.annotation, (option.name or "value").upper().replace("_", "-"))


def _nothing(context: object) -> str:
    return ""
