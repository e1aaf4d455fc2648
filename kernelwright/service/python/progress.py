"""How a search is followed from Python: in a terminal, in a notebook, as lines, or not at all."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, get_args

from kernelwright.campaign.event import (
    CampaignBegan,
    CampaignEnded,
    CampaignHeldUp,
    CandidateProposed,
    Event,
    FunctionRefused,
    ModelRemarked,
)
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.errors import InputError
from kernelwright.plural import counted
from kernelwright.service.console import error_console
from kernelwright.service.python.html import BAD, GOOD, QUIET, Cell, line_html, table_html
from kernelwright.service.view.figure import ranked
from kernelwright.service.view.progress import (
    LiveTable,
    PlainLines,
    ProgressView,
    held_up,
    progress_view,
)
from kernelwright.service.view.search_progress import SearchProgress, TaskProgress

Progress = Literal["auto", "live", "lines", "notebook", "none"]
"""`auto` is a live table in a terminal, HTML in a notebook, and lines on standard error else."""
_EVERY_S = 0.25
_HEADS = ("", "task", "tried", "right", "failed", "best")


def follow(progress: Progress | bool, candidates_per_task: int) -> ProgressView:
    """Return what follows a search; use it as a context.

    Raises:
        InputError: there is no such display.
    """
    kind = _kind(progress)
    if kind == "none":
        return Silent()
    if kind == "notebook":
        return NotebookTable()
    console = error_console()
    if kind == "live":
        return LiveTable(console, candidates_per_task)
    if kind == "lines":
        return PlainLines(console)
    return progress_view(console, candidates_per_task)


def _kind(progress: Progress | bool) -> Progress:
    if progress not in (True, False, *get_args(Progress)):
        known = ", ".join(map(repr, get_args(Progress)))
        raise InputError(f"expected a progress display of {known}, found {progress!r}.")
    if progress is False:
        return "none"
    if progress is not True and progress != "auto":
        return progress
    return "notebook" if is_notebook() else "auto"


def is_notebook() -> bool:
    """Say whether this program is a notebook's kernel, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.has_trait("kernel")


class Silent:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Take in one event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def _cells(task: TaskProgress, label: str) -> list[Cell]:
    mark = Cell("…", QUIET)
    if task.reason:
        mark = Cell("✓", GOOD) if task.is_confirmed else Cell("–", QUIET)
    return [
        mark,
        Cell(label),
        Cell(str(task.tried), is_number=True),
        Cell(str(task.correct), GOOD, is_number=True),
        Cell(str(task.failed) if task.failed else "", BAD, is_number=True),
        Cell(ranked(task.rank) if task.rank else "", is_number=True),
    ]


Display = Callable[[str, str], None]
"""Shows a cell's output as HTML and as text, in the place of what it showed before."""


class NotebookTable:
    """A table below the cell, drawn anew a few times a second by the thread that searches."""

    def __init__(self, display: Display | None = None) -> None:
        self._display = display or _in_place()
        self._progress = SearchProgress()
        self._head = "reading the functions"
        self._last = ""
        self._remarks: list[str] = []
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._thread = threading.get_ident()
        self._is_over = False

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._draw()

    def show(self, event: Event) -> None:
        """Take in one event."""
        self._take_in(event)
        is_due = time.monotonic() - self._drawn_at >= _EVERY_S
        # A notebook finds the cell of an output by the thread that prints it.
        if threading.get_ident() == self._thread and is_due:
            self._draw()

    def _take_in(self, event: Event) -> None:
        self._progress.take_in(event)
        match event:
            case CampaignBegan():
                where = f"{event.device.name} ({event.device.chip})"
                self._head = f"search {', '.join(event.functions)} on {where}"
            case FunctionRefused():
                self._remarks.append(f"{event.function}: {event.reason}")
            case ModelRemarked():
                self._remarks.append(event.sentence)
            case CandidateProposed():
                name = self._progress.label(self._progress.tasks[event.task_id])
                self._last = f"{name}: {event.idea}"
            case CampaignHeldUp():
                self._last = held_up(event)
            case CampaignEnded():
                self._last = event.reason

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        tried = counted(self._progress.tried, "candidate")
        foot = f"{tried} · {in_seconds(self._drawn_at - self._started)}"
        if not self._is_over:
            foot += " · interrupt the kernel to end in order"
        parts = [line_html(self._head)]
        rows = [_cells(t, self._progress.label(t)) for t in self._progress.tasks.values()]
        if rows:
            parts.append(table_html(_HEADS, rows))
        parts += [line_html(remark, BAD) for remark in self._remarks]
        parts += [line_html(self._last, QUIET), line_html(foot, QUIET)]
        self._display("".join(parts), f"{self._head}: {foot}")


def _in_place() -> Display:
    from IPython.display import display, update_display

    shown: str | None = None

    def update(html: str, text: str) -> None:
        nonlocal shown
        bundle = {"text/html": html, "text/plain": text}
        if shown is None:
            # Not before there is something to show: a refused call leaves no empty output.
            shown = display(bundle, raw=True, display_id=True).display_id  # type: ignore[no-untyped-call]
        else:
            update_display(bundle, raw=True, display_id=shown)  # type: ignore[no-untyped-call]

    return update
