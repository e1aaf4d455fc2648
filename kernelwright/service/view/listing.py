"""Tables of champions and of what was tried."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.report.champion_list import RankedChampion
from kernelwright.campaign.report.wording import in_local_time, in_seconds
from kernelwright.metal.perf import CAVEAT
from kernelwright.plural import counted
from kernelwright.service.view.figure import in_bytes, in_dollars, ranked, short
from kernelwright.service.view.fitted_table import Column, FittedTable
from kernelwright.service.view.speedup import gain_cells, speedup_note
from kernelwright.store import HistoryEntry, StoreStatistics, Wanted
from kernelwright.store.model_call import Spend

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
    columns = [
        Column("id", style="id"),
        Column("task", style="task"),
        Column("inputs", style="quiet", leaves=5, below="alone", least=24, overflow="fold"),
        Column("MLX", justify="right", leaves=2),
        Column("ours", justify="right", leaves=2),
        Column("speedup", leaves=1),
        Column("on", leaves=3),
        Column("spent", style="figure", justify="right", leaves=4),
        Column("age", style="quiet", justify="right", leaves=6),
    ]
    rows = [_champion_cells(c, (spending or {}).get(c.task.id)) for c in champions]
    if not spending:
        columns, rows = [*columns[:7], *columns[8:]], [[*row[:7], *row[8:]] for row in rows]
    console.print(FittedTable(columns, rows, key=1))
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


def _champion_cells(champion: RankedChampion, spent: Spend | None) -> list[Text]:
    device = Text(champion.gain.chip, style=_FRESHNESS[champion.freshness])
    if champion.freshness != "fresh":
        device.append(f" ({champion.freshness})")
    return [
        Text(short(champion.candidate_id)),
        Text(f"{champion.task.name} ({champion.place})" if champion.place else champion.task.name),
        Text(champion.task.shapes),
        *gain_cells(champion.gain),
        device,
        Text(in_dollars(spent)),
        Text(_age(champion.crowned_at)),
    ]


def print_history(
    console: Console, entries: Sequence[HistoryEntry], notes: Sequence[str] = ()
) -> None:
    """Print trials, newest first, and notes below."""
    if not entries:
        console.print("Nothing was tried yet that fits.", style="quiet")
        return
    columns = (
        Column("id", style="id"),
        Column("task", style="task"),
        Column("verdict", leaves=1),
        Column("rank", style="figure", justify="right", leaves=2),
        Column("by", style="quiet", leaves=4, least=18),
        Column("what", style="quiet", leaves=5, below="dropped", least=24),
        Column("when", style="quiet", justify="right", leaves=3),
    )
    rows = [
        [
            Text(short(entry.candidate_id)),
            Text(entry.task.name),
            _verdict(entry),
            Text(ranked(entry.rank)),
            Text(entry.author),
            # A failure says what went wrong, a success what made it different.
            Text(entry.idea if entry.rank else entry.summary or entry.idea),
            Text(in_local_time(entry.at)),
        ]
        for entry in entries
    ]
    console.print(FittedTable(columns, rows, key=1))
    if any(entry.rank and entry.rank.kind == "predicted" for entry in entries):
        notes = [f"~ is predicted from counted work, not timed; {CAVEAT}", *notes]
    for note in notes:
        console.print(Text(note, style="quiet"))


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
    columns = (
        Column("graph", style="id"),
        Column("function", style="task"),
        Column("inputs", style="quiet", leaves=2, below="alone", least=24, overflow="fold"),
        Column("calls", style="figure", justify="right", leaves=1),
        Column("seen", style="quiet", justify="right", leaves=3),
    )
    rows = [
        [
            Text(short(call.fingerprint)),
            Text(call.function),
            Text(", ".join(call.inputs)),
            Text(f"{call.calls:,}"),
            Text(_age(call.last_seen_at) if call.last_seen_at else "–"),
        ]
        for call in wanted
    ]
    console.print(FittedTable(columns, rows, key=1))
