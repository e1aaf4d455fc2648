"""A verdict in the terminal: its stages, what they found, and the sentence that sums it up."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.evaluator.evaluation import NOT_FOR_MACS, Evaluation


def print_verdict(console: Console, evaluation: Evaluation, name: str) -> None:
    """Print the verdict on a program for the task `name`."""
    table = Table(box=None, header_style="label", pad_edge=False)
    for column in ("", "stage", "time", "found"):
        table.add_column(column)
    for result in evaluation.stages:
        mark = Text("✓", style="good") if result.passed else Text("✗", style="bad")
        table.add_row(mark, result.stage.value, f"{result.duration_s:.2f} s", result.summary)
    style = "good" if evaluation.is_correct else "bad"
    where = f"{evaluation.device.name} ({evaluation.device.chip})"
    program = (evaluation.program[:12], "id")
    console.print(Text.assemble((name, "task"), f" on {where}, program ", program))
    console.print(table)
    for diagnostic in evaluation.diagnostics:
        console.print(str(diagnostic), markup=False)
    for report in evaluation.reports:
        console.print(str(report), markup=False)
    console.print(Text.assemble((evaluation.status.value, style), f" {evaluation.summary}"))
    if evaluation.is_correct and not evaluation.fits_metal:
        console.print(NOT_FOR_MACS, style="warn")
