"""A plan in the terminal: the graph step by step, why it is cut there, and what it saves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from kernelwright.campaign.planning.plan_summary import PlanOutline, RegionOutline, Step
from kernelwright.evaluator.gain import Gain
from kernelwright.metal.perf import caveat_of
from kernelwright.plural import counted
from kernelwright.service.view.figure import in_bytes
from kernelwright.service.view.fitted_table import Column, FittedTable

_COLORS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_BAR = 24
_MOST_NAMES = 6
_MOST_STEPS = 48
"""Beyond this many rows, steps that are alike share one."""


@dataclass(frozen=True)
class _Row:
    """A step of the graph, or several in a row that MLX runs."""

    steps: tuple[Step, ...]
    region: RegionOutline | None = None
    times: int = 1


def print_plan(console: Console, plan: PlanOutline) -> None:
    """Print a plan: its steps, the reasons for its cuts, its traffic."""
    console.print(_headline(plan))
    console.print(_steps(plan))
    if plan.left or plan.seams:
        console.print(_reasons(plan))
    console.print()
    console.print(_traffic(plan))
    console.print(Text(_note(plan), style="quiet"))
    if not plan.regions:
        console.print("MLX keeps all of it: no part of this graph gains.", style="warn")


def _headline(plan: PlanOutline) -> Text:
    kernels = counted(len(plan.regions), "kernel")
    rest = plan.traffic.planned_launches - len(plan.regions)
    launches = counted(rest, "launch", "launches")
    return Text.assemble(
        ("\n", ""),
        (plan.function, "title"),
        (f"  {plan.inputs}", "quiet"),
        f"\n{counted(plan.nodes, 'node')}: {kernels}, {launches} of MLX\n",
    )


def _steps(plan: PlanOutline) -> FittedTable:
    columns = (
        Column("step"),
        Column("computes", least=16, overflow="fold"),
        Column("reads", style="quiet", leaves=4, below="dropped", least=16),
        Column("launches", justify="right", leaves=2),
        Column("bytes", justify="right", leaves=3),
        Column("speedup", justify="right", leaves=1),
    )
    tint = tints(plan)
    rows = [_cells(row, _COLORS[tint.get(row.steps[0].label, 0)]) for row in _rows(plan)]
    return FittedTable(columns, rows, key=1)


def _rows(plan: PlanOutline) -> list[_Row]:
    rows = list(_in_order(plan))
    if len(rows) <= _MOST_STEPS:
        return rows
    alike: dict[str, _Row] = {}
    for row in rows:
        key = row.region.task_id if row.region else _ops(row.steps)
        first = alike.get(key)
        times = first.times + 1 if first else 1
        alike[key] = _Row((first or row).steps, (first or row).region, times)
    return list(alike.values())


def _in_order(plan: PlanOutline) -> Iterator[_Row]:
    regions = {region.label: region for region in plan.regions}
    waiting: list[Step] = []
    for step in plan.steps:
        if region := regions.get(step.label):
            if waiting:
                yield _Row(tuple(waiting))
            waiting = []
            yield _Row((step,), region)
        else:
            waiting.append(step)
    if waiting:
        yield _Row(tuple(waiting))


def _cells(row: _Row, color: str) -> list[Text]:
    region = row.region
    if region is None:
        return _mlx_cells(row)
    return [
        Text(f"▌{region.label}{_multiple(row)}", style=color),
        Text(region.name, style="task"),
        Text(", ".join(row.steps[0].reads)),
        Text(f"{region.mlx.launches} → {region.planned.launches}"),
        Text(f"{in_bytes(region.mlx.nbytes)} → {in_bytes(region.planned.nbytes)}"),
        _speedup(region.gain, region.limit),
    ]


def _speedup(gain: Gain | None, limit: Gain | None) -> Text:
    """Return what a champion gains, else what a perfect kernel would at most."""
    if gain is not None:
        return Text(gain.times, "good") if gain.beats_mlx else Text("MLX best", "quiet")
    if limit is None:
        return Text()
    return Text(f"≤{limit.ratio:.2f}×", style="" if limit.beats_mlx else "quiet")


def _mlx_cells(row: _Row) -> list[Text]:
    first, last = row.steps[0], row.steps[-1]
    label = first.label if first is last else f"{first.label}–{last.label[1:]}"
    inside = {step.label for step in row.steps}
    reads = dict.fromkeys(r for step in row.steps for r in step.reads if r not in inside)
    return [
        Text(f" {label}{_multiple(row)}", style="quiet"),
        Text(_ops(row.steps), style="quiet"),
        Text(", ".join(reads)),
        Text(str(sum(step.launches for step in row.steps)), style="quiet"),
        Text(),
        Text(),
    ]


def _multiple(row: _Row) -> str:
    return f" ×{row.times}" if row.times > 1 else ""


def tints(plan: PlanOutline) -> dict[str, int]:
    """Return the number of each region's tint; regions that are alike share theirs."""
    tasks = list(dict.fromkeys(region.task_id for region in plan.regions))
    return {region.label: tasks.index(region.task_id) % len(_COLORS) for region in plan.regions}


def _ops(steps: Sequence[Step]) -> str:
    names = ["+".join(dict.fromkeys(step.ops)) for step in steps]
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())


def _reasons(plan: PlanOutline) -> Tree:
    """Say why the kernels are not larger."""
    tree = Tree(Text("why it is cut there", style="label"), guide_style="quiet")
    by_reason: dict[str, list[str]] = {}
    for left in plan.left:
        ops = left.op if left.count == 1 else f"{left.op} ×{left.count}"
        by_reason.setdefault(left.reason, []).append(ops)
    for seam in plan.seams:
        by_reason.setdefault(seam.reason, []).append(f"{seam.source} | {seam.target}")
    for reason, names in by_reason.items():
        named = ", ".join(names[:_MOST_NAMES])
        if more := names[_MOST_NAMES:]:
            named += f" and {len(more)} more"
        tree.add(Text.assemble((named, "task"), f"  {reason}"))
    return tree


def _traffic(plan: PlanOutline) -> FittedTable:
    """Compare the ways to run the whole function; the fastest of MLX's is what counts."""
    traffic, work = plan.traffic, plan.work
    rows = [
        ("eager", traffic.eager, traffic.eager_launches),
        ("mx.compile", traffic.compiled, traffic.compiled_launches),
        ("plan", traffic.planned, traffic.planned_launches),
    ]
    if traffic.fast < traffic.compiled:
        rows.insert(2, ("with mx.fast", traffic.fast, work.fast.launches))
    columns = (
        Column("whole function", style="label"),
        Column("bytes", style="figure", justify="right", leaves=2),
        Column("", leaves=3, below="dropped"),
        Column("launches", style="figure", justify="right", leaves=1),
        Column("speedup", justify="right"),
    )
    cells = []
    for name, nbytes, launches in rows:
        is_plan = name == "plan"
        bar = _bar(nbytes / max(traffic.eager, 1), "cyan" if is_plan else "bright_black")
        speedup = _speedup(plan.gain, plan.limit) if is_plan else Text()
        cells.append([Text(name), Text(in_bytes(nbytes)), bar, Text(str(launches)), speedup])
    return FittedTable(columns, cells)


def _bar(share: float, style: str) -> Text:
    """Draw a share of the whole, to an eighth of a column."""
    whole, eighths = divmod(round(min(share, 1.0) * _BAR * 8), 8)
    return Text("█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip(), style=style)


def _note(plan: PlanOutline) -> str:
    """Say what the speedups are of, and what `≤` and `~` mean."""
    if plan.limit is None:
        return ""
    words = f"\nspeedups are over MLX's best ({plan.limit.baseline}) on {plan.limit.chip}: "
    known = [g for g in (plan.gain, *(r.gain for r in plan.regions)) if g]
    parts = []
    if len(known) < len(plan.regions) + 1:
        parts.append("≤ is what a perfect kernel would gain, predicted")
    if known:
        parts.append("others are of the store's champions, ~ predicted")
    if caveat := caveat_of([plan.limit.chip]):
        parts.append(caveat)
    return f"{words}{'; '.join(parts)}"
