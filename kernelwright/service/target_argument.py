"""The functions that a command is given: a file that is not there is told before MLX is loaded."""

from collections.abc import Sequence
from pathlib import Path

from kernelwright.campaign.spec.target_module import check_file
from kernelwright.errors import InputError, raise_all


def is_function(target: str) -> bool:
    """Say whether a target names a function, and no candidate by its id."""
    return not all(c in "0123456789abcdef" for c in target.lower())


def require_target(target: str) -> None:
    """Refuse a target whose file is not there.

    Raises:
        InputError: it names a file, and there is none.
    """
    if is_function(target):
        check_file(target)


def require_model(target: str) -> None:
    """Refuse a model in a Python file that is not there.

    Raises:
        InputError: it names a file, and there is none.
    """
    path = target.partition(":")[0]
    if path.endswith(".py"):
        check_file(str(Path(path).expanduser()))


def require_targets(targets: Sequence[str]) -> None:
    """Refuse targets of which no file is there; what only some lack is told with all that is wrong.

    Raises:
        InputError: each names a file, and there is none of them.
    """
    faults: list[InputError] = []
    for target in targets:
        try:
            require_target(target)
        except InputError as e:
            faults.append(e)
    if len(faults) == len(targets):
        raise_all(faults)
