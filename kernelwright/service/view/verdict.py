"""A verdict in the terminal: its stages, what they found, and the sentence that sums it up."""

from rich.console import Console
from rich.text import Text

from kernelwright.evaluator.evaluation import NOT_FOR_MACS, Evaluation
from kernelwright.service.view.fitted_table import Column, FittedTable


def print_verdict(console: Console, evaluation: Evaluation, name: str) -> None:
    """Print the verdict on a program for the task `name`."""
    columns = (
        Column(""),
        Column("stage"),
        Column("time", style="quiet", justify="right", leaves=2, below="dropped"),
        Column("found", leaves=1, below="alone", least=24, overflow="fold"),
    )
    rows = []
    for result in evaluation.stages:
        mark = Text("✓", style="good") if result.passed else Text("✗", style="bad")
        took = Text(f"{result.duration_s:.2f} s")
        rows.append([mark, Text(result.stage.value), took, Text(result.summary)])
    style = "good" if evaluation.is_correct else "bad"
    where = f"{evaluation.device.name} ({evaluation.device.chip})"
    program = (evaluation.program[:12], "id")
    console.print(Text.assemble((name, "task"), f" on {where}, program ", program))
    console.print(FittedTable(columns, rows, key=1))
    for diagnostic in evaluation.diagnostics:
        console.print(str(diagnostic), markup=False)
    for report in evaluation.reports:
        console.print(str(report), markup=False)
    console.print(Text.assemble((evaluation.status.value, style), f" {evaluation.summary}"))
    if evaluation.is_correct and not evaluation.fits_metal:
        console.print(NOT_FOR_MACS, style="warn")
