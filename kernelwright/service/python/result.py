"""What a search found: champions, a table, plans, history, and pictures of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult

from kernelwright.campaign import FunctionReport, SearchReport, TaskReport
from kernelwright.campaign.history.resuming import history_of
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.errors import InputError
from kernelwright.evaluator.gain import Gain
from kernelwright.plural import counted
from kernelwright.runtime.export import FormatName
from kernelwright.service.export_function import ExportResult, export
from kernelwright.service.python.champion import Champion
from kernelwright.service.python.html import (
    BAD,
    GOOD,
    QUIET,
    Cell,
    as_text,
    line_html,
    page,
    table_html,
)
from kernelwright.service.python.picture import Picture
from kernelwright.service.python.plan import PlanResult
from kernelwright.service.python.plot import draw_result
from kernelwright.service.python.speedup import Speedup
from kernelwright.service.view.figure import MLX_IS_BEST, short
from kernelwright.service.view.speedup import speedup_note
from kernelwright.service.view.summary import print_search_summary
from kernelwright.store import HistoryEntry, KernelStore

_MOST_HISTORY = 10_000
_HEADS = ("function and its regions", "right", "kernel", "MLX", "ours", "speedup")


@dataclass(frozen=True)
class TaskRow:
    """One kernel's row of `SearchResult.table`; `pandas.DataFrame(result.table)` takes them."""

    function: str
    region: str
    """The region's name in the function; the function's own where it is all of it."""
    uses: int
    """How many regions of the function it serves."""
    tried: int
    correct: int
    kernel: str | None
    """The best candidate's id; None where nothing was right."""
    kind: str | None
    """`measured`, `predicted`, or `traffic` where only bytes are known."""
    chip: str | None
    mlx_us: float | None
    """MLX's time at its best, in microseconds."""
    kernel_us: float | None
    speedup: float | None
    lower: float | None
    upper: float | None
    """The bounds of the interval, where it was measured."""
    beats_mlx: bool
    """False where MLX stays."""
    reason: str
    """Why nothing more was tried."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found; it shows itself in terminals (`rich`) and notebooks."""

    report: SearchReport
    """The record that `kernelwright search --json` prints."""
    plan: PlanResult
    """How the functions were cut, with what the champions gain."""
    store: str | None = None
    """The store's path or URL; None for the default one."""
    chip: str | None = None
    """Whose times are predicted; None for the default one."""

    @property
    def campaign_id(self) -> str:
        """The id by which the store knows the search."""
        return self.report.campaign_id

    @property
    def interrupted(self) -> bool:
        """True where Ctrl-C or a deadline left work behind, which the same search takes up."""
        return self.report.ended.interrupted

    @cached_property
    def champions(self) -> tuple[Champion, ...]:
        """The kernels that beat MLX, the greatest gain first."""
        won = [task for task in self.report.tasks if task.beats_mlx]
        won.sort(key=lambda task: -task.gain.ratio if task.gain else 0.0)
        return tuple(Champion(str(t.champion_id), self.store, self.chip) for t in won)

    @property
    def champion(self) -> Champion:
        """The kernel that gains most.

        Raises:
            InputError: no kernel beats MLX.
        """
        if not self.champions:
            why = self.report.nothing_searched or "look at result.table for what was tried"
            raise InputError(f"expected a kernel that beats MLX, found none in this search; {why}.")
        return self.champions[0]

    @property
    def speedup(self) -> Speedup:
        """How many times faster the function is as a whole; 1.0 where MLX stays.

        Of several functions the one that gains most; `report.functions` has each.
        """
        gains = [f.gain for f in self.report.functions if f.gain is not None]
        return Speedup.of(max(gains, key=lambda gain: gain.ratio, default=None))

    @cached_property
    def table(self) -> tuple[TaskRow, ...]:
        """A row for each kernel of each function."""
        return tuple(row for f in self.report.functions for row in self._rows(f))

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """Every candidate that was tried, newest first.

        Raises:
            StoreError: the store is not there any more.
        """
        with KernelStore(self.store, must_exist=True) as opened:
            return history_of(opened, self.campaign_id, task=None, status=None, limit=_MOST_HISTORY)

    def plot(self) -> Picture:
        """Draw MLX's times and the kernels' as bars: an SVG that a notebook shows."""
        names = ", ".join(self.report.function_names)
        return Picture(draw_result(self.report), f"MLX's times and the kernels' of {names}")

    def export(
        self,
        directory: str | Path,
        *,
        function: Callable[..., object] | str | None = None,
        format_name: FormatName = "module",
        name: str | None = None,
        force: bool = False,
    ) -> tuple[ExportResult, ...]:
        """Write what was found as code that needs no Kernelwright; see `kernelwright.export`.

        Args:
            directory: where to write; it is made where it is missing.
            function: the function to write whole, its kernels in place; else each champion.
            format_name: such as `module`, `package`, `cpp` or `swift`.
            name: of the module and the function in it.
            force: take what is not verified, and overwrite files.

        Raises:
            InputError: no kernel beats MLX, or a result differs.
            UnsupportedError: a function cannot stand in a module of its own.
        """
        targets = [c.id for c in self.champions] if function is None else [function]
        if not targets:
            raise InputError(
                f"expected a kernel that beats MLX to export, found none: {self._why_none()}."
            )
        return tuple(
            export(
                target,
                directory,
                name=name,
                format_name=format_name,
                store=self.store,
                force=force,
            )
            for target in targets
        )

    def _why_none(self) -> str:
        reasons = dict.fromkeys(
            MLX_IS_BEST if task.champion_id else task.reason for task in self.report.tasks
        )
        return "; ".join(filter(None, reasons)) or self.report.nothing_searched

    def _rows(self, function: FunctionReport) -> Iterator[TaskRow]:
        tasks = {task.task_id: task for task in self.report.tasks}
        for task_id in dict.fromkeys(function.task_ids):
            task, uses = tasks[task_id], function.task_ids.count(task_id)
            yield _row(function.function, task, uses)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield page(lambda inner: print_search_summary(inner, self.report), options.max_width)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return result_html(self)


def result_html(result: SearchResult) -> str:
    """Write what was found as a headline, a table and notes."""
    report = result.report
    tried = sum(task.tried for task in report.tasks)
    kernels, functions = len(result.champions), len(report.function_names)
    head = (
        f"{counted(kernels, 'kernel')} faster than MLX for {counted(functions, 'function')}, from "
        f"{counted(tried, 'candidate')} in {in_seconds(report.duration_s)} on "
        f"{report.device.name} ({report.device.chip})"
    )
    if result.interrupted:
        head += "; interrupted, the same search goes on from here"
    elif words := report.ended.early_words:
        head += f"; {words}"
    parts = [line_html(head)]
    if rows := [_cells(task) for task in report.tasks]:
        parts.append(table_html(_HEADS, rows))
    if gains := [task.gain for task in report.tasks if task.gain]:
        parts.append(line_html(f"speedups are {speedup_note(gains)}", QUIET))
    parts += [line_html(f"{r.function}: {r.reason}", BAD) for r in report.refused]
    return "".join(parts)


def _cells(task: TaskReport) -> list[Cell]:
    right = f"{task.tried - sum(task.failures.values())}/{task.tried}"
    kernel = short(task.champion_id) if task.champion_id else ""
    gain = task.gain
    if gain is None:
        return [
            Cell(task.name),
            Cell(right),
            Cell(kernel),
            Cell("–", is_number=True),
            Cell("–", is_number=True),
            Cell(f"with MLX: {task.reason}" if task.reason else "with MLX", QUIET),
        ]
    speedup = Cell(_told(gain), GOOD) if gain.beats_mlx else Cell(MLX_IS_BEST, QUIET)
    times = [Cell(gain.mlx_time, is_number=True), Cell(gain.kernel_time, is_number=True)]
    return [Cell(task.name), Cell(right), Cell(kernel), *times, speedup]


def _told(gain: Gain) -> str:
    return f"{gain.with_interval} ({gain.kind})"


def _row(function: str, task: TaskReport, uses: int) -> TaskRow:
    gain = task.gain
    measured = gain if gain and gain.kind == "measured" else None
    return TaskRow(
        function=function,
        region=task.name.partition("/")[2] or task.name,
        uses=uses,
        tried=task.tried,
        correct=task.tried - sum(task.failures.values()),
        kernel=task.champion_id,
        kind=gain.kind if gain else None,
        chip=gain.chip if gain else None,
        mlx_us=gain.mlx_us if gain else None,
        kernel_us=gain.kernel_us if gain else None,
        speedup=gain.ratio if gain else None,
        lower=measured.lower if measured else None,
        upper=measured.upper if measured else None,
        beats_mlx=task.beats_mlx,
        reason=task.reason,
    )
