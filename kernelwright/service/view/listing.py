"""Tables of champions and of what was tried."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.report.champion_list import RankedChampion
from kernelwright.campaign.report.wording import counted, in_seconds
from kernelwright.service.view.figure import SHORT_ID, in_bytes, in_dollars, ranked, short
from kernelwright.service.view.speedup import gain_cells, speedup_note
from kernelwright.store import HistoryEntry, StoreStatistics, Wanted
from kernelwright.store.record import Spend

_NARROW = 100
_FRESHNESS = {"fresh": "good", "stale": "warn", "revoked": "bad"}


def print_champions(
    console: Console,
    champions: Sequence[RankedChampion],
    store: str,
    spending: Mapping[str, Spend] | None = None,
) -> None:
    """Print the champions by gain and what models were paid for their tasks."""
    if not champions:
        console.print(
            f"No champion in {store} fits; `kernelwright search FILE.py` makes some, "
            "`kernelwright history` lists what was tried.",
            style="quiet",
        )
        return
    wide = console.width >= _NARROW
    table = _table()
    table.add_column("id", style="id", no_wrap=True, min_width=SHORT_ID)
    table.add_column("task", style="task", no_wrap=True, overflow="ellipsis", ratio=3)
    if wide:
        table.add_column("inputs", style="quiet", overflow="ellipsis", no_wrap=True, ratio=3)
    table.add_column("MLX", justify="right", no_wrap=True, min_width=8)
    table.add_column("ours", justify="right", no_wrap=True, min_width=8)
    told = [len(str(gain_cells(c.gain)[-1])) for c in champions]
    table.add_column("speedup", no_wrap=True, min_width=max(8, *told))
    table.add_column("on", no_wrap=True, overflow="ellipsis", min_width=6)
    if spending:
        table.add_column("spent", style="figure", justify="right", no_wrap=True, min_width=7)
    if wide:
        table.add_column("age", justify="right", no_wrap=True, style="quiet", min_width=4)
    for champion in champions:
        device = Text(champion.gain.chip, style=_FRESHNESS[champion.freshness])
        if champion.freshness != "fresh":
            device.append(f" ({champion.freshness})")
        task = Text(champion.task.name)
        if not wide:
            # What has no column of its own stands below.
            task.append(f"\n{champion.task.shapes}", style="quiet")
            device.append(f"\n{_age(champion.crowned_at)}", style="quiet")
        cells = [
            Text(short(champion.candidate_id)),
            task,
            *([Text(champion.task.shapes)] if wide else []),
            *gain_cells(champion.gain),
            device,
        ]
        if spending:
            cells.append(Text(in_dollars(spending.get(champion.task.id))))
        if wide:
            cells.append(Text(_age(champion.crowned_at)))
        table.add_row(*cells)
    console.print(table)
    console.print(f"\n{speedup_note(c.gain for c in champions)}", style="quiet")
    kept = sum(not c.beats_mlx for c in champions)
    if kept:
        console.print(
            f"MLX is best for {counted(kept, 'task')} of these: there is nothing to take.",
            style="quiet",
        )
    if kept == len(champions):
        return
    console.print(
        Text.assemble(
            ("\nnext  ", "label"),
            (f"kernelwright show {short(champions[0].candidate_id)}", "command"),
        )
    )


def print_history(console: Console, entries: Sequence[HistoryEntry]) -> None:
    """Print trials, newest first."""
    if not entries:
        console.print("Nothing was tried yet that fits.", style="quiet")
        return
    wide = console.width >= _NARROW
    table = _table()
    table.add_column("id", style="id", no_wrap=True, min_width=SHORT_ID)
    table.add_column("task", style="task", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("verdict", no_wrap=True, min_width=13)
    table.add_column("rank", justify="right", style="figure", no_wrap=True, min_width=8)
    table.add_column("by", style="quiet", no_wrap=True, overflow="ellipsis", max_width=18)
    if wide:
        table.add_column("what", style="quiet", no_wrap=True, overflow="ellipsis", ratio=4)
    table.add_column("age", justify="right", style="quiet", no_wrap=True, min_width=4)
    for entry in entries:
        cells = [
            Text(short(entry.candidate_id)),
            Text(entry.task.name),
            _verdict(entry),
            Text(ranked(entry.rank)),
            Text(entry.author),
        ]
        if wide:
            # A failure says what went wrong, a success what made it different.
            cells.append(Text(entry.idea if entry.rank else entry.summary or entry.idea))
        table.add_row(*cells, Text(_age(entry.at)))
    console.print(table)


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), header_style="label", pad_edge=False, expand=True)


def _verdict(entry: HistoryEntry) -> Text:
    if entry.status is None:
        return Text(entry.state, style="warn")
    text = Text(entry.status.value, style="good" if entry.rank else "bad")
    if entry.reused:
        text.append(" (known)", style="quiet")
    return text


def _age(moment: datetime) -> str:
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    if seconds >= 2 * 86400:
        return f"{seconds // 86400:.0f} d"
    return in_seconds(round(seconds)).replace(".0 s", " s")


def print_statistics(console: Console, statistics: StoreStatistics) -> None:
    """Print how much a store holds."""
    size = "" if statistics.size_bytes is None else f", {in_bytes(statistics.size_bytes)}"
    console.print(
        Text.assemble(
            (statistics.url, "task"), (f"  schema {statistics.schema_version}{size}", "quiet")
        )
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="label")
    table.add_column(justify="right")
    for name, count in statistics.rows.items():
        if count:
            table.add_row(name.replace("_", " "), f"{count:,}")
    console.print(table)


def print_wanted(console: Console, wanted: Sequence[Wanted]) -> None:
    """Print the calls that no kernel could serve, or how they come to be here."""
    if not wanted:
        console.print(
            "Nothing is wanted: functions under @kernelwright.optimize add the calls that no "
            "kernel could serve.",
            style="quiet",
        )
        return
    table = _table()
    table.add_column("graph", style="id", no_wrap=True, min_width=SHORT_ID)
    table.add_column("function", style="task", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("inputs", style="quiet", no_wrap=True, overflow="ellipsis", ratio=4)
    table.add_column("calls", style="figure", justify="right", no_wrap=True, min_width=7)
    table.add_column("seen", style="quiet", justify="right", no_wrap=True, min_width=6)
    for call in wanted:
        seen = _age(call.last_seen_at) if call.last_seen_at else "–"
        table.add_row(
            Text(short(call.fingerprint)),
            Text(call.function),
            Text(", ".join(call.inputs)),
            Text(f"{call.calls:,}"),
            Text(seen),
        )
    console.print(table)
