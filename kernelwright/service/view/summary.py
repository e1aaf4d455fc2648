"""The closing page of a search: what was found, what it saves, where it is, what to type next."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.event import LeftOperation
from kernelwright.campaign.planning.traffic import Traffic
from kernelwright.campaign.report.search_report import FunctionReport, SearchReport, TaskReport
from kernelwright.campaign.report.wording import in_causes, in_seconds
from kernelwright.campaign.spec.target_module import CATALOG
from kernelwright.plural import counted
from kernelwright.service.view.figure import in_bytes, short
from kernelwright.service.view.fitted_table import Column, FittedTable
from kernelwright.service.view.speedup import gain_cells, speedup_note

_WIDE = 112


def print_search_summary(console: Console, report: SearchReport) -> None:
    """Print the closing page."""
    console.print(search_summary(report, console.width))


def search_summary(report: SearchReport, width: int) -> RenderableType:
    """Compose the closing page for a terminal of `width` columns."""
    parts: list[RenderableType] = [_headline(report)]
    if report.tasks:
        parts += [Text(), _task_table(report)]
    notes = list(_notes(report))
    if notes:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="label", no_wrap=True)
        grid.add_column()
        for label, text in notes:
            grid.add_row(label, text)
        parts += [Text(), grid]
    is_early = report.ended.interrupted or report.ended.capped
    ending = "interrupted" if report.ended.interrupted else "capped" if is_early else "finished"
    title = Text(f"search {ending}", style="warn" if is_early else "title")
    panel = Panel(
        Group(*parts),
        title=title,
        title_align="left",
        border_style="quiet",
        padding=(1, 2) if width >= _WIDE else (0, 1),
    )
    return Group(panel, _next_commands(report))


def _headline(report: SearchReport) -> Text:
    if report.nothing_searched:
        return Text(report.nothing_searched, style="warn")
    won = sum(task.beats_mlx for task in report.tasks)
    tried = sum(task.tried for task in report.tasks)
    known = sum(task.reused for task in report.tasks)
    text = Text.assemble(
        (str(won), "figure"),
        f" of {counted(len(report.tasks), 'task')} faster than MLX, from ",
        f"{counted(len(report.function_names), 'function')}; ",
        (str(tried), "figure"),
        f" {'candidate' if tried == 1 else 'candidates'} in ",
        (in_seconds(report.duration_s), "figure"),
    )
    if known:
        every = "all" if known == tried else str(known)
        text.append(f"; {every} known from the store, {report.evaluated} evaluated now")
    return text


def _task_table(report: SearchReport) -> FittedTable:
    columns = (
        Column("function and its regions"),
        Column("right", justify="right", leaves=3),
        Column("kernel", leaves=1),
        Column("MLX", justify="right", leaves=2),
        Column("ours", justify="right", leaves=2),
        Column("speedup"),
        Column("moves", justify="right", leaves=4, below="dropped"),
    )
    rows = [row for f in report.functions for row in _function_rows(report, f)]
    return FittedTable(columns, rows)


def _function_rows(report: SearchReport, function: FunctionReport) -> Iterator[list[Text]]:
    """Yield a row for the function as a whole, and one for each region if there are several."""
    tasks = {task.task_id: task for task in report.tasks}
    uses = Counter(function.task_ids)
    name = Text(function.function, style="task")
    if sum(other.function == function.function for other in report.functions) > 1:
        name.append(f"\n{function.inputs}", style="quiet")
    is_tried = any(tasks[task_id].tried for task_id in uses)
    moves = _moves(report.traffic_of(function), is_known=is_tried)
    if len(uses) == 1 and function.is_one_kernel:
        (task_id,) = uses
        yield [name, *_verdict_cells(tasks[task_id]), moves]
        return
    whole = gain_cells(function.gain) if function.gain else _with_mlx(_undecided(tasks, uses))
    yield [name, Text(), Text(), *whole, moves]
    for task_id, count in uses.items():
        task = tasks[task_id]
        label = task.name.partition("/")[2] or task.name
        label = f"  {label}" if count == 1 else f"  {count}× {label}"
        known = task.champion_id is not None
        moves = _moves(task.traffic, is_known=known)
        yield [Text(label), *_verdict_cells(task), moves]


def _undecided(tasks: Mapping[str, TaskReport], task_ids: Iterable[str]) -> str:
    """Say how a function stands of which no gain is known."""
    regions = [tasks[task_id] for task_id in task_ids]
    if regions and not any(region.tried for region in regions):
        return "not tried"
    return "with MLX" if all(region.reason for region in regions) else "open"


def _verdict_cells(task: TaskReport) -> list[Text]:
    if not task.tried and task.champion_id is None:
        words = "with MLX" if task.reason else "not tried"
        return [Text(), Text(), Text(), Text(), Text(words, style="quiet")]
    failed = sum(task.failures.values())
    right = Text.assemble(
        (str(task.tried - failed), "good" if task.tried > failed else "bad"), f"/{task.tried}"
    )
    if task.unconfirmed is not None:
        mlx, ours, speedup = gain_cells(task.unconfirmed)
        return [right, Text(), mlx, ours, Text.assemble(speedup, (", not confirmed", "warn"))]
    if task.gain is None:
        return [right, Text(), *(_with_mlx() if task.reason else _with_mlx("open"))]
    kernel = Text(short(task.champion_id or ""), style="id" if task.beats_mlx else "quiet")
    return [right, kernel, *gain_cells(task.gain)]


def _with_mlx(words: str = "with MLX") -> list[Text]:
    return [Text(), Text(), Text(words, style="quiet")]


def _moves(traffic: Traffic, *, is_known: bool) -> Text:
    return Text(in_bytes(traffic.moved) if is_known else "", style="quiet")


def _notes(report: SearchReport) -> Iterator[tuple[str, Text]]:
    if refuted := sum(task.refuted for task in report.tasks):
        leaders = counted(refuted, "leader")
        yield "refuted", Text(f"{leaders} did not survive the hidden gate", style="bad")
    if failures := _failures(report):
        yield "failed", Text(failures, style="bad")
    if report.unusable:
        yield "models", Text(f"replies of no use: {in_causes(report.unusable)}", style="warn")
    if left := _left(report):
        yield "with MLX", Text(left)
    for refused in report.refused:
        yield "refused", Text(f"{refused.function}: {refused.reason}", style="warn")
    if gains := [task.gain for task in report.tasks if task.gain]:
        yield "speedup", Text(speedup_note(gains), style="quiet")
    if any(task.unconfirmed for task in report.tasks):
        words = "no champion yet: the same command confirms what is left to confirm"
        yield "not confirmed", Text(words, style="warn")
    if report.ended.early_words:
        yield "ended", Text(report.ended.early_words, style="warn")


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
    return "; ".join(f"{', '.join(ops)}: {reason}" for reason, ops in by_reason.items())


def _left_operations(report: SearchReport) -> list[LeftOperation]:
    return [operation for function in report.functions for operation in function.left]


def _next_commands(report: SearchReport) -> RenderableType:
    gaining = [task for task in report.tasks if task.beats_mlx]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="label")
    table.add_column(overflow="fold")
    campaign = (f"  campaign {short(report.campaign_id)}", "quiet")
    table.add_row("store", Text.assemble(report.store, campaign))
    # A kernel that gains in a function that does not is nothing to take.
    losing = {i for f in report.functions if f.gain and not f.gain.beats_mlx for i in f.task_ids}
    losing -= {i for f in report.functions if f.gain and f.gain.beats_mlx for i in f.task_ids}
    worth = [task for task in gaining if task.task_id not in losing]
    best = max(worth, key=lambda task: task.gain.ratio if task.gain else 0.0, default=None)
    shown = best or next((task for task in report.tasks if task.champion_id), None)
    if shown:
        look = f"kernelwright show {short(str(shown.champion_id))}"
        table.add_row("look", Text(look, style="command"))
        if best is None:
            table.add_row("take", Text("nothing: MLX is best for all of it", style="quiet"))
        else:
            for export in _exports(report, best):
                table.add_row("take", Text(export, style="command"))
    elif report.tasks:
        table.add_row("look", Text("kernelwright history", style="command"))
    return Padding(table, (0, 2))


def _exports(report: SearchReport, best: TaskReport) -> Iterator[str]:
    """Yield the command that exports the function of the best kernel, and the kernel's alone."""
    uses = [f for f in report.functions if best.task_id in f.task_ids]
    place = max(uses, key=lambda f: f.gain.ratio if f.gain else 0.0).place
    if place and not place.startswith((CATALOG, "<")):
        yield f"kernelwright export {quote(place)} -o vendored/"
    yield f"kernelwright export {short(str(best.champion_id))} -o vendored/"
