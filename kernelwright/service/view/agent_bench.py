"""The yardstick for models and prompts, as a table and as lines of progress."""

from rich.console import Console
from rich.text import Text

from kernelwright.campaign.agent_bench.score import BenchReport, LevelScore, TaskScore
from kernelwright.campaign.report.wording import in_dollar_range
from kernelwright.service.view.fitted_table import Column, FittedTable

_COLUMNS = ("solved", "at floor", "beats", "×floor", "offline", "tokens", "dollars", "min")


def score_line(score: TaskScore) -> str:
    """Say in a line how a variant fared with a task."""
    floor = "" if score.times_floor is None else f", {score.times_floor:.2f} × floor"
    mark = "~" if score.kind != "measured" else ""
    cost = f", {_paid(score)}" if score.tokens else ""
    by = f" by {score.author}" if score.author else ""
    solved = "solved" if score.solved else "not solved"
    solved += ", at the floor" if score.at_floor else ""
    return (
        f"{score.variant.value} {score.task}: {solved}, {mark}{score.best_us:.3g} µs{by}"
        f"{floor}{cost}"
    )


def print_bench_table(console: Console, report: BenchReport) -> None:
    """Print a line for each variant, and one for each level below it."""
    leaving = enumerate(_COLUMNS, start=1)
    figures = (Column(head, justify="right", leaves=turn) for turn, head in leaving)
    columns = (Column("variant, level"), *figures)
    console.print(FittedTable(columns, [_cells(line) for line in report.table]))
    console.print(
        "solved, of so many tasks: a right program of its own, or one at the floor, where no model "
        "is asked; beats: clearly faster than the offline agents; ×floor: how many times the least "
        "time that a right kernel can take, the offline agents beside it.",
        style="quiet",
        soft_wrap=True,
    )
    versions = ", ".join(f"{role} {version}" for role, version in report.prompts.items())
    console.print(
        f"{', '.join(report.models) or 'no model'} on {report.device.chip}; prompts: {versions}",
        style="quiet",
        markup=False,
        soft_wrap=True,
    )


def _cells(line: LevelScore) -> list[Text]:
    is_sum = line.level == "all"
    is_offline = line.variant.value == "offline"
    cells = (
        line.variant.value if is_sum else f"  {line.level}",
        f"{line.solved}/{line.tasks}",
        str(line.at_floor),
        "–" if is_offline else str(line.beats_offline),
        _figure(line.times_floor),
        _figure(line.offline_times_floor),
        f"{line.tokens:,}" if line.tokens else "–",
        _paid(line) if line.tokens else "–",
        f"{line.minutes:.1f}",
    )
    return [Text(cell, style="" if is_sum else "quiet") for cell in cells]


def _paid(score: TaskScore | LevelScore) -> str:
    """Return the dollars, up to what they are at most where calls have no bill."""
    return in_dollar_range(score.dollars - score.assumed_dollars, score.dollars)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
