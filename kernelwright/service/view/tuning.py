"""What `tune` prints: the parts worth a search, and the model before and after."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kernelwright.campaign.report.search_report import SearchReport
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.models.accuracy import Accuracy
from kernelwright.runtime.models.choosing import Choice
from kernelwright.runtime.models.proof import Sameness
from kernelwright.runtime.models.speed import Interval, Speed
from kernelwright.runtime.models.workload import Workload
from kernelwright.service.view.fitted_table import Column, FittedTable

_MOST_ROWS = 30


def print_choices(console: Console, workload: Workload, choices: Sequence[Choice]) -> None:
    """List the tasks by what they could save, and those refused with the reason."""
    calls = ", ".join(f"{n} x {name}" for name, n in workload.calls.items())
    total = sum(choice.gain_us for choice in choices) or 1.0
    columns = (
        Column("task", style="task"),
        Column("inputs", style="quiet", leaves=3, below="alone", least=24, overflow="fold"),
        Column("calls", justify="right", leaves=2),
        Column("µs", justify="right", leaves=1),
        Column("least µs", justify="right", leaves=2),
        Column("share", justify="right", least=12, overflow="fold"),
    )
    rows = []
    for choice in choices[:_MOST_ROWS]:
        about = "" if choice.is_measured else "~"
        share = choice.refused or f"{100 * choice.gain_us / total:.1f} %"
        cells = (
            choice.name,
            ", ".join(map(str, choice.graph.input_types)),
            str(choice.calls),
            f"{about}{choice.taken_us:.1f}",
            f"{choice.floor_us:.1f}",
            share,
        )
        rows.append([*map(Text, cells)])
    console.print(Text(f"{workload.model}: {calls}", style="title"))
    console.print(FittedTable(columns, rows))


class TuneReport(Record):
    """A model before and after: speed, proof, and the search between."""

    model: str
    speed: Speed | None
    """None where the device measures no time, or the model is not at hand."""
    sameness: Sameness | None
    accuracy: Accuracy | None = None
    """None where bits are the same, or there is nothing finer to compare with."""
    search: SearchReport | None


def print_tuning(console: Console, report: TuneReport) -> None:
    """Begin with tokens per second, then say whether the tokens are the same."""
    model, speed, sameness, search = report.model, report.speed, report.sameness, report.search
    if speed is not None:
        before, after = speed.tokens_per_s("untouched"), speed.tokens_per_s("tuned")
        console.print(
            Text.assemble(
                (model, "title"),
                f": decode {before:.1f} -> {after:.1f} tokens/s, "
                f"{_ratio(speed.decode_speedup)}; prefill of {speed.prompt} "
                f"{_ratio(speed.prefill_speedup)}; control {_ratio(speed.decode_control)}; peak "
                f"{speed.arms['untouched'].peak_bytes / 1e9:.2f} -> "
                f"{speed.arms['tuned'].peak_bytes / 1e9:.2f} GB",
            ),
            highlight=False,
        )
    else:
        console.print(f"{model}: no tokens per second, for this device measures no time")
    if sameness is not None:
        bits = (
            "the same bits"
            if sameness.same_bits
            else (f"logits within {sameness.largest_difference:.2g}")
        )
        console.print(
            f"greedy tokens: {sameness.identical} of {sameness.prompts} prompts of "
            f"{sameness.tokens} identical, {bits}",
            highlight=False,
        )
        for d in sameness.divergences:
            verdict = "within its own rounding" if d.is_excused else "NOT EXCUSED"
            console.print(
                f"  prompt {d.prompt} parts at token {d.place}: margin {d.untouched_margin:.3g} "
                f"untouched, {d.tuned_margin:.3g} tuned, rounding {d.rounding:.3g}: {verdict}",
                highlight=False,
            )
    if report.accuracy is not None:
        console.print(_lost(report.accuracy), highlight=False)
    if search is not None:
        found = sum(task.champion_id is not None for task in search.tasks)
        console.print(
            f"search: {found} of {len(search.tasks)} tasks have a champion", highlight=False
        )


def _lost(accuracy: Accuracy) -> str:
    verdict = "no more than MLX loses" if accuracy.holds else "MORE THAN MLX LOSES"
    return (
        f"logits of {accuracy.tokens} tokens against a float32 model: off by "
        f"{100 * accuracy.tuned:.3g} % tuned, {100 * accuracy.untouched:.3g} % untouched: {verdict}"
    )


def _ratio(interval: Interval) -> str:
    return f"{interval.median:.2f}x ({interval.low:.2f}–{interval.high:.2f})"
