"""The live picture of a search: a table on a terminal, plain lines anywhere else."""

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from kernelwright.campaign.event import (
    CampaignBegan,
    CampaignEnded,
    CampaignHeldUp,
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    FunctionPlanned,
    FunctionRefused,
    ModelRemarked,
    TaskEnded,
)
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.plural import counted
from kernelwright.service.view.figure import ranked, short
from kernelwright.service.view.fitted_table import Column, FittedTable
from kernelwright.service.view.search_progress import SearchProgress, TaskProgress

_VISIBLE_TASKS = 16
_BAR = 12


class ProgressView(Protocol):
    """Follows a search from its events; use it as a context."""

    def show(self, event: Event) -> None:
        """Take in one event."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def progress_view(
    console: Console, candidates_per_task: int, *, quiet: bool = False
) -> ProgressView:
    """Return the live table on a terminal, lines where there is none, or nothing at all."""
    if quiet:
        return PlainLines(Console(quiet=True))
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveTable(console, candidates_per_task)
    return PlainLines(console)


class LiveTable:
    """A row for each task, redrawn a few times a second."""

    def __init__(self, console: Console, candidates_per_task: int) -> None:
        self._console = console
        self._candidates_per_task = candidates_per_task
        self._progress = SearchProgress()
        self._head = Text("reading the functions", style="quiet")
        self._last = Text()
        self._started = time.monotonic()
        self._spinner = Spinner("dots", style="title")
        self._live = Live(
            console=console, refresh_per_second=8, transient=True, get_renderable=self._render
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Take in one event."""
        self._progress.take_in(event)
        match event:
            case CampaignBegan():
                self._head = Text.assemble(
                    ("search ", "title"),
                    (", ".join(event.functions), "task"),
                    (f"  on {event.device.name} ({event.device.chip})", "quiet"),
                )
                if event.earlier_words:
                    self._console.print(event.earlier_words, style="quiet", markup=False)
            case FunctionRefused():
                self._last = Text(event.reason, style="warn")
            case CandidateJudged():
                self._judged(event)
            case CandidateConfirmed():
                self._confirmed(event)
            case ModelRemarked():
                # Above the table, where it stays.
                self._console.print(event.sentence, style="warn", markup=False)
            case CampaignHeldUp():
                self._last = Text(held_up(event), style="warn")

    def _judged(self, event: CandidateJudged) -> None:
        row = self._progress.tasks[event.task_id]
        style = "good" if event.rank else "bad"
        self._last = Text.assemble(
            (short(event.candidate_id), "id"),
            f" {self._progress.label(row)} ",
            (event.status.value, style),
            "  ",
            (event.summary, "quiet"),
        )

    def _confirmed(self, event: CandidateConfirmed) -> None:
        row = self._progress.tasks[event.task_id]
        words = "confirmed" if event.rank else f"not confirmed: {event.summary}"
        self._last = Text.assemble(
            (short(event.candidate_id), "id"),
            f" {self._progress.label(row)} ",
            (words, "good" if event.rank else "bad"),
        )

    def _render(self) -> RenderableType:
        self._last.truncate(max(20, self._console.width - 2), overflow="ellipsis")
        return Group(self._head, self._table(), self._last, self._foot())

    def _table(self) -> FittedTable:
        columns = (
            Column(""),
            Column("task"),
            Column("", leaves=4),
            Column("tried", justify="right", leaves=1),
            Column("right", justify="right", leaves=2),
            Column("failed", justify="right", leaves=3),
            Column("best", justify="right"),
        )
        shown = self._shown()
        rows = [self._cells(row) for row in shown]
        hidden = len(self._progress.tasks) - len(shown)
        if hidden > 0:
            more = Text(f"and {counted(hidden, 'more task')}", style="quiet")
            rows.append([Text(), more, *(Text() for _ in columns[2:])])
        return FittedTable(columns, rows, key=1, one_line=True)

    def _shown(self) -> list[TaskProgress]:
        rows = list(self._progress.tasks.values())
        room = max(3, min(_VISIBLE_TASKS, self._console.height - 6))
        if len(rows) <= room:
            return rows
        # What moves is what one wants to see.
        moving = [row for row in rows if not row.reason]
        still = [row for row in rows if row.reason]
        kept = {id(row) for row in (moving + still[::-1])[:room]}
        return [row for row in rows if id(row) in kept]

    def _cells(self, row: TaskProgress) -> list[Text]:
        failed = row.failed
        return [
            self._mark(row),
            Text(self._progress.label(row), style="task"),
            self._bar(row),
            Text(str(row.tried), style="quiet" if not row.tried else ""),
            Text(str(row.correct) if row.tried else "", style="good"),
            Text(str(failed) if failed else "", style="bad"),
            Text(ranked(row.rank) if row.rank else "", style="figure"),
        ]

    def _bar(self, row: TaskProgress) -> Text:
        total = row.tried if row.reason else max(row.tried, self._candidates_per_task)
        full = _BAR * row.tried // max(1, total)
        style = "title" if not row.reason else "good" if row.correct else "quiet"
        return Text.assemble(("━" * full, style), ("─" * (_BAR - full), "quiet"))

    def _mark(self, row: TaskProgress) -> Text:
        if row.waiting or (row.tried >= self._candidates_per_task and not row.reason):
            moment = self._spinner.render(self._console.get_time())
            return moment if isinstance(moment, Text) else Text("·")
        if row.reason:
            return Text("✓", style="good") if row.is_confirmed else Text("–", style="quiet")
        return Text("·", style="quiet")

    def _foot(self) -> Text:
        tried, known = self._progress.tried, self._progress.reused
        words = [counted(tried, "candidate")]
        if known:
            words.append(f"{known} known already")
        words += [in_seconds(time.monotonic() - self._started), "Ctrl-C ends in order"]
        return Text(" · ".join(words), style="quiet")


def held_up(event: CampaignHeldUp) -> str:
    """Say for what a search waits."""
    return f"waits {in_seconds(event.seconds)}: {event.reason}"


class PlainLines:
    """One line for each thing worth keeping in a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = SearchProgress()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, event: Event) -> None:
        """Print what the event says, if it says something."""
        self._progress.take_in(event)
        line = self._line(event)
        if line:
            self._console.print(line, markup=False, soft_wrap=True)

    def _label(self, task_id: str) -> str:
        return self._progress.label(self._progress.tasks[task_id])

    def _line(self, event: Event) -> str:
        match event:
            case CampaignBegan():
                device = f"{event.device.name} ({event.device.chip})"
                told = f"search {short(event.shown_id)} on {device}, store {event.store}"
                return "\n".join(filter(None, (told, event.earlier_words)))
            case FunctionPlanned():
                return (
                    f"{event.function} {event.inputs}: {counted(event.nodes, 'op')}, "
                    f"{counted(len(event.tasks), 'region')}"
                )
            case FunctionRefused():
                return f"{event.function}: {event.reason}"
            case CandidateJudged():
                known = ", known" if event.reused else ""
                rank = f", {ranked(event.rank)}" if event.rank else ""
                head = f"  {short(event.candidate_id)} {self._label(event.task_id)}"
                return f"{head}: {event.status.value}{rank}{known}"
            case CandidateConfirmed():
                words = "confirmed" if event.rank else f"not confirmed, {event.summary}"
                return f"  {short(event.candidate_id)} {self._label(event.task_id)}: {words}"
            case ModelRemarked():
                return f"  {event.sentence}"
            case CampaignHeldUp():
                return held_up(event)
            case TaskEnded():
                return f"  {self._label(event.task_id)}: {event.reason}"
            case CandidateProposed() | CampaignEnded():
                return ""
