"""Times of one function on this machine, as a page: measured first, a prediction apart."""

from rich.console import Console
from rich.text import Text

from kernelwright.evaluator.gain import Gain, in_microseconds
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.benchmark import ArmTime, Benchmark
from kernelwright.service.view.figure import MLX_IS_BEST
from kernelwright.service.view.fitted_table import Column, FittedTable
from kernelwright.service.view.speedup import gain_line


class FunctionBenchmark(Record):
    """One function's times; what is predicted stands apart from what was measured."""

    measured: Benchmark
    predicted: Gain | None
    """What the store's champions should gain, where nothing here can time them."""
    search: str
    """The command that finds kernels for it, where the store has none."""


def print_benchmark(console: Console, report: FunctionBenchmark) -> None:
    """Print what was measured, then what is predicted for a GPU that is not here."""
    measured = report.measured
    console.print(
        Text.assemble(("\n", ""), (measured.function, "title"), (f"  {measured.inputs}", "quiet"))
    )
    console.print(Text(f"timed on {_where(measured)}", style="quiet"))
    console.print(_times(measured))
    for name, reason in measured.left_out.items():
        console.print(Text(f"{name} not timed: {reason}", style="quiet"))
    if measured.gain is not None:
        console.print(Text.assemble(("speedup  ", "label"), gain_line(measured.gain)))
    if report.predicted is not None:
        console.print(Text.assemble(("predicted  ", "label"), gain_line(report.predicted)))
        words = "for that chip and no part of the times above: do not compare the two"
        console.print(Text(f"           {words}", style="quiet"))
    if report.search:
        console.print(Text.assemble(("next  ", "label"), (report.search, "command")))


def _where(measured: Benchmark) -> str:
    turns = f"{measured.rounds} rounds in turns"
    if measured.is_gpu:
        return f"{measured.chip}, {turns}"
    return f"{measured.chip}: MLX without a GPU, {turns}"


def _times(measured: Benchmark) -> FittedTable:
    columns = (
        Column(""),
        Column("median", style="figure", justify="right"),
        Column("95 % interval", style="quiet", leaves=2),
        Column("", leaves=1, below="alone"),
    )
    rows = []
    for arm in measured.arms:
        interval = f"{in_microseconds(arm.lower_us)} – {in_microseconds(arm.upper_us)}"
        median = Text(in_microseconds(arm.median_us))
        rows.append([Text(arm.name), median, Text(interval), _remark(arm, measured)])
    return FittedTable(columns, rows)


def _remark(arm: ArmTime, measured: Benchmark) -> Text:
    if arm.name == "ours" and measured.gain is not None:
        faster = measured.gain.beats_mlx
        words = measured.gain.with_interval if faster else MLX_IS_BEST
        return Text(words, style="good" if faster else "quiet")
    if arm.name == measured.fastest:
        return Text("MLX at its best", style="quiet")
    return Text()
