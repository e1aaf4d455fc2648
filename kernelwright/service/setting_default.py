"""Options whose defaults a project's settings give: which command takes which setting."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.settings import Settings

_SEARCH = ("model", "base_url", "budget", "tokens", "calls")
TAKEN: dict[str, tuple[str, ...]] = {
    "search": (
        *("device", "chip", "threadgroup_memory", "candidates", "repairs", "jobs"),
        *_SEARCH,
    ),
    "tune": ("device", "candidates", "jobs", "model", "base_url"),
    "bench": ("device", "chip"),
    "verify": ("device", "threadgroup_memory"),
    "plan": ("chip", "threadgroup_memory"),
    "redteam": _SEARCH,
    "mcp": ("model", "base_url", "budget"),
    "best": ("chip",),
    "show": ("chip",),
    "report": ("chip",),
}
"""By command; a store needs no entry, since whatever opens one asks the settings."""


def defaults_of(command: str, settings: "Settings") -> dict[str, object]:
    """Return a command's defaults, by the names of its parameters."""
    given = {name: getattr(settings, name) for name in TAKEN.get(command, ())}
    listed = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
    return {name: value for name, value in listed.items() if value is not None}
