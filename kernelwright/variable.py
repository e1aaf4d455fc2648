"""The environment variables that Kernelwright reads; a misspelt one is named, not passed over."""

import os
from difflib import get_close_matches

from kernelwright.errors import InputError

PREFIX = "KERNELWRIGHT_"
SETTINGS = (
    *("store", "device", "chip", "threadgroup_memory", "model", "base_url"),
    *("budget", "tokens", "calls", "candidates", "repairs", "jobs"),
)
"""The names of all settings; each has a variable."""
_OTHERS = ("CACHE", "PRICES", "TRACEBACK", "MCP_TOKEN", "SERVE_TOKEN", "PASSWORD")
_LIKENESS = 0.8
SWITCH = "KERNELWRIGHT"
"""Turns every kernel off."""
_OFF = ("off", "0", "false", "no")
_ON = ("", "on", "1", "true", "yes")


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{setting.upper()}"


def are_kernels_off() -> bool:
    """Say whether the environment turns kernels off, as with `KERNELWRIGHT=off`.

    Raises:
        InputError: it says neither off nor on: whoever misspells it wants no kernels.
    """
    value = os.environ.get(SWITCH, "").strip().lower()
    if value not in (*_OFF, *_ON):
        raise InputError(f"expected {SWITCH} to be off or on, found {os.environ[SWITCH]!r}.")
    return value in _OFF


def check_variables() -> None:
    """Refuse a variable that is nearly one of ours; what is like none may be somebody else's.

    Raises:
        InputError: the name of a variable is misspelt.
    """
    known = [*map(variable_of, SETTINGS), *(f"{PREFIX}{name}" for name in _OTHERS)]
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in known:
            continue
        if near := get_close_matches(
            name[len(PREFIX) :], [k[len(PREFIX) :] for k in known], 1, _LIKENESS
        ):
            raise InputError(
                f"the environment sets {name}, which is no variable of Kernelwright's; did you "
                f"mean {PREFIX}{near[0]}?"
            )
