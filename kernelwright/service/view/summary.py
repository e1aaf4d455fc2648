"""The closing page of a search: what was found, what it saves, where it is, what to type next."""

from collections import Counter

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.event import LeftOperation
from kernelwright.campaign.report import SearchReport, TaskReport
from kernelwright.campaign.savings import Traffic
from kernelwright.service.view.figure import (
    counted,
    in_bytes,
    in_seconds,
    ranked,
    short,
    times,
)

_NARROW = 100


def search_summary(report: SearchReport, width: int) -> RenderableType:
    """Compose the closing page for a terminal of `width` columns."""
    parts: list[RenderableType] = [_headline(report)]
    if report.tasks:
        parts.append(Padding(_task_table(report, wide=width >= _NARROW), (1, 0, 0, 0)))
    parts += [Padding(note, (1, 0, 0, 0)) for note in _notes(report)]
    title = Text("search interrupted" if report.ended.interrupted else "search finished")
    title.stylize("warn" if report.ended.interrupted else "title")
    return Group(
        Panel(Group(*parts), title=title, title_align="left", border_style="quiet", padding=(1, 2)),
        _next_commands(report),
    )


def print_search_summary(console: Console, report: SearchReport) -> None:
    """Print the closing page."""
    console.print(search_summary(report, console.width))


def _headline(report: SearchReport) -> Text:
    regions = sum(len(function.task_ids) for function in report.functions)
    won = sum(task.champion_id is not None for task in report.tasks)
    tried = sum(task.tried for task in report.tasks)
    known = sum(task.reused for task in report.tasks)
    text = Text.assemble(
        (str(won), "figure"),
        f" of {counted(len(report.tasks), 'task')} won",
        (f"  {counted(len(report.functions), 'function')}, {counted(regions, 'region')}", "quiet"),
        "\n",
        (str(tried), "figure"),
        f" {'candidate' if tried == 1 else 'candidates'} tried in ",
        (in_seconds(report.duration_s), "figure"),
    )
    if known:
        every = "every one" if known == tried else str(known)
        text.append(f"; {every} known from the store, {report.evaluated} evaluated now")
    return text


def _task_table(report: SearchReport, *, wide: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="label", pad_edge=False)
    table.add_column("task", no_wrap=True, overflow="ellipsis", min_width=16)
    table.add_column("right/tried", justify="right", no_wrap=True)
    table.add_column("champion", no_wrap=True)
    table.add_column("time" if report.device.measures_time else "predicted", justify="right")
    table.add_column("traffic", justify="right", no_wrap=True)
    table.add_column("eager", justify="right", no_wrap=True)
    table.add_column("compile", justify="right", no_wrap=True)
    if wide:
        table.add_column("of eager", width=16)
    for task in report.tasks:
        table.add_row(*_task_cells(task, wide=wide))
    return table


def _task_cells(task: TaskReport, *, wide: bool) -> list[RenderableType]:
    failed = sum(task.failures.values())
    tried = Text.assemble(
        (str(task.tried - failed), "good" if task.tried > failed else "bad"), f"/{task.tried}"
    )
    if task.champion_id is None:
        return [Text(task.name, style="task"), tried, Text("stays with MLX", style="quiet")]
    moved = moved_by(task.traffic)
    cells: list[RenderableType] = [
        Text(task.name, style="task"),
        tried,
        Text(short(task.champion_id), style="id"),
        Text(ranked(task.rank), style="figure"),
        Text(in_bytes(moved)),
        _saved(task.traffic.eager, moved),
        _saved(task.traffic.compiled, moved),
    ]
    if wide:
        cells.append(Bar(task.traffic.eager, 0, moved, width=16, color="cyan", bgcolor="grey23"))
    return cells


def moved_by(traffic: Traffic) -> int:
    """Return what the champion moves: counted where it was counted, else what one kernel must."""
    return traffic.planned if traffic.kernel is None else traffic.kernel


def _saved(baseline: int, moved: int) -> Text:
    ratio = baseline / moved if moved else 1.0
    style = "good" if ratio >= 1.05 else "bad" if ratio < 0.95 else "quiet"
    return Text(f"{times(ratio)} less" if ratio >= 1.05 else times(ratio), style=style)


def _notes(report: SearchReport) -> list[Text]:
    notes = []
    if failures := _failures(report):
        notes.append(Text.assemble(("failed    ", "label"), failures))
    if left := _left(report):
        notes.append(Text.assemble(("with MLX  ", "label"), left))
    notes += [
        Text.assemble(("refused   ", "warn"), f"{refused.function}: {refused.reason}")
        for refused in report.refused
    ]
    if not report.device.measures_time and any(task.champion_id for task in report.tasks):
        notes.append(
            Text(
                "Nothing was timed: this device counts. ~ marks a prediction; traffic is bytes to "
                "and from device memory, against each op alone (eager) and mx.compile.",
                style="quiet",
            )
        )
    if report.ended.interrupted or "allowed" in report.ended.reason:
        notes.append(
            Text(f"Ended early: {report.ended.reason}. Run it again to go on.", style="warn")
        )
    return notes


def _failures(report: SearchReport) -> str:
    total: Counter[str] = Counter()
    for task in report.tasks:
        total.update({status.value: count for status, count in task.failures.items()})
    return ", ".join(f"{count} {kind}" for kind, count in total.most_common())


def _left(report: SearchReport) -> str:
    counts: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for operation in _left_operations(report):
        counts[operation.op] += operation.count
        reasons[operation.op] = operation.reason
    by_reason: dict[str, list[str]] = {}
    for op, count in counts.most_common():
        by_reason.setdefault(reasons[op], []).append(op if count == 1 else f"{op} ×{count}")
    return "; ".join(f"{', '.join(ops)} ({reason})" for reason, ops in by_reason.items())


def _left_operations(report: SearchReport) -> list[LeftOperation]:
    return [operation for function in report.functions for operation in function.left]


def _next_commands(report: SearchReport) -> RenderableType:
    champion = next((task.champion_id for task in report.tasks if task.champion_id), None)
    lines = [
        ("store", Text.assemble(report.store, (f"  campaign {short(report.campaign_id)}", "quiet")))
    ]
    if champion:
        lines.append(("look", Text(f"kernelwright show {short(champion)}", style="command")))
        lines.append(
            ("take", Text(f"kernelwright export {short(champion)} -o vendored/", style="command"))
        )
    else:
        lines.append(("look", Text("kernelwright history", style="command")))
    table = Table.grid(padding=(0, 2))
    for label, text in lines:
        table.add_row(Text(label, style="label"), text)
    return Padding(table, (0, 3))
