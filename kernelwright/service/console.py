"""The terminal: one theme, one console for results and one for errors.

No console reads markup: a name such as `[/red]` or `:x:` is printed as it is. What has several
styles is a `Text`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from kernelwright.printable import printable

if TYPE_CHECKING:
    from kernelwright.campaign.event import FunctionRefused

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


class SafeConsole(Console):
    """A console on which only rich steers the terminal, whatever the text that it is given holds.

    Models, servers and users write names, conversations and errors, whose control characters could
    rewrite the screen, the window's title or the clipboard; here they are spelled.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what a renderable becomes, its text without control characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


_prints_json: ContextVar[bool] = ContextVar("prints_json", default=False)


def console() -> Console:
    """Return the one console for results; it follows NO_COLOR and the terminal's width.

    While standard output is kept for JSON, that is the one for errors and progress.
    """
    return error_console() if _prints_json.get() else result_console()


@contextmanager
def output_for_json(is_asked: bool = True) -> Iterator[None]:
    """Keep standard output for JSON, if that is asked: what is printed meanwhile goes to errors."""
    token = _prints_json.set(is_asked)
    try:
        yield
    finally:
        _prints_json.reset(token)


@cache
def result_console() -> Console:
    """Return the console of standard output."""
    return SafeConsole(theme=THEME, highlight=False, markup=False, emoji=False)


@cache
def error_console() -> Console:
    """Return the console for errors and for progress that is no result."""
    return SafeConsole(theme=THEME, highlight=False, markup=False, emoji=False, stderr=True)


def print_refused(refused: "Iterable[FunctionRefused]") -> None:
    """Say of which calls of functions nothing is made, and why."""
    for each in refused:
        sentence = f"{each.function}: {each.reason}"
        error_console().print(sentence, style="warn", markup=False, soft_wrap=True)
