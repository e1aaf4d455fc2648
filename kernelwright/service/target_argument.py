"""The functions that a command is given: a file that is not there is told before MLX is loaded."""

from collections.abc import Sequence
from pathlib import Path

from kernelwright.campaign.spec.target_module import check_file
from kernelwright.errors import InputError, raise_all


def is_function(target: str) -> bool:
    """Say whether a target names a function, and no candidate by its id."""
    return not all(c in "0123456789abcdef" for c in target.lower())


def existing_target(target: str | None) -> str | None:
    """Return a target as it was given.

    Raises:
        InputError: it names a file, and there is none.
    """
    if target is not None and is_function(target):
        check_file(target)
    return target


def existing_model(target: str) -> str:
    """Return a model's name as it was given.

    Raises:
        InputError: it names a Python file, and there is none.
    """
    path = target.partition(":")[0]
    if path.endswith(".py"):
        check_file(str(Path(path).expanduser()))
    return target


def existing_targets(targets: Sequence[str] | None) -> Sequence[str] | None:
    """Return targets as they were given; what only some lack is told with all that is wrong.

    Raises:
        InputError: each names a file, and there is none of them.
    """
    faults: list[InputError] = []
    for target in targets or ():
        try:
            existing_target(target)
        except InputError as e:
            faults.append(e)
    if targets and len(faults) == len(targets):
        raise_all(faults)
    return targets
