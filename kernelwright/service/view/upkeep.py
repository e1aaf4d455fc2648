"""What became of a store: copied, merged, pruned, verified."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from kernelwright.metal.diagnostic import Record
from kernelwright.service.view.figure import in_bytes, short
from kernelwright.store import Merged, Pruned, Synced

_STYLES = {
    "current": "quiet",
    "fresh": "good",
    "stale": "warn",
    "revoked": "bad",
    "unreachable": "quiet",
}

if TYPE_CHECKING:
    from kernelwright.campaign import Recheck


class BackedUp(Record):
    """A copy of a store."""

    url: str
    file: str
    size_bytes: int


def print_backup(console: Console, copied: BackedUp) -> None:
    """Say where the copy is."""
    console.print(
        Text.assemble(
            f"{copied.url} is copied to ",
            (copied.file, "task"),
            f", {in_bytes(copied.size_bytes)}.",
        )
    )


def print_merged(console: Console, merged: Merged) -> None:
    """Say what the joined store holds and what the second one brought."""
    rows = merged.rows
    added = ", ".join(
        f"{count:,} {table.replace('_', ' ')}" for table, count in merged.added.items()
    )
    console.print(
        Text.assemble(
            (merged.url, "task"),
            f" has {rows.get('evaluation', 0):,} evaluations of "
            f"{rows.get('candidate', 0):,} candidates, {rows.get('champion', 0):,} champions.",
        )
    )
    console.print(f"new from the second: {added or 'nothing'}", style="quiet")


def print_synced(console: Console, synced: Synced) -> None:
    """Say what one store took from another."""
    console.print(
        Text.assemble(
            (synced.target, "task"),
            f" takes {len(synced.copied):,} champions from {synced.source}; "
            f"{synced.behind:,} more lead nothing there",
            f", {synced.unproven:,} want verifying first" if synced.unproven else "",
        )
    )


def print_pruned(console: Console, pruned: Pruned) -> None:
    """Say what was forgotten."""
    verb = "would forget" if pruned.is_dry_run else "forgot"
    console.print(
        f"{verb} {pruned.candidates:,} failed candidates with {pruned.evaluations:,} evaluations "
        f"and {pruned.programs:,} programs, {pruned.sample_sets:,} sets of samples, "
        f"{pruned.calls:,} calls and {pruned.events:,} lines of logs"
        + ("" if pruned.is_dry_run else f"; {in_bytes(pruned.bytes_freed)} freed")
    )


def print_recheck(console: Console, result: "Recheck") -> None:
    """Print one champion's outcome, as it comes."""
    champion = result.champion
    console.print(
        Text.assemble(
            (f"{result.outcome:<12}", _STYLES[result.outcome]),
            (f"{short(champion.candidate_id)}  ", "id"),
            (f"{champion.task.name}  ", "task"),
            (result.reason, "quiet"),
        )
    )


def print_recheck_summary(console: Console, found: Sequence["Recheck"]) -> None:
    """Count the outcomes."""
    if not found:
        console.print("The store has no champion to verify.", style="quiet")
        return
    counts: Counter[str] = Counter(result.outcome for result in found)
    console.print(", ".join(f"{counts[o]} {o}" for o in _STYLES if counts[o]))
