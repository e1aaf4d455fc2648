"""The terminal: one theme, one console for results and one for errors."""

from functools import cache

from rich.console import Console
from rich.theme import Theme

THEME = Theme(
    {
        "good": "green",
        "bad": "red",
        "warn": "yellow",
        "id": "bold cyan",
        "task": "bold",
        "quiet": "bright_black",
        "figure": "bold",
        "label": "bright_black",
        "command": "bold green",
        "title": "bold cyan",
    }
)


@cache
def console() -> Console:
    """Return the one console for results; it follows NO_COLOR and the terminal's width."""
    return Console(theme=THEME, highlight=False)


@cache
def error_console() -> Console:
    """Return the console for errors and for progress that is no result."""
    return Console(theme=THEME, highlight=False, stderr=True)
