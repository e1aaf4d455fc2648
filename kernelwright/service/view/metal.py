"""Diagnostics, results and counts of Metal kernels, as pages."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.evaluator.gain import in_microseconds
from kernelwright.metal.device.base import Counters
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import Diagnostic, SanitizerReport, Severity
from kernelwright.metal.perf import Prediction, caveat_of
from kernelwright.plural import counted
from kernelwright.service.view.figure import in_bytes
from kernelwright.service.view.fitted_table import FittedTable, plain_columns

_STYLES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "quiet"}
_SHOWN_ELEMENTS = 6


def print_diagnostics(console: Console, diagnostics: Sequence[Diagnostic], file: str) -> None:
    """Print diagnostics as a compiler does; `source` is the file that was compiled."""
    for d in diagnostics:
        name = file if d.file == "source" else d.file
        head = Text(f"{name}:{d.line}:{d.column}: ", style="task")
        head.append(f"{d.severity}: ", style=_STYLES[d.severity])
        console.print(head.append(d.message, style="task"), soft_wrap=True)
        if d.source_line:
            console.print(Text(d.source_line), soft_wrap=True)
            indent = "".join("\t" if c == "\t" else " " for c in d.source_line[: d.column - 1])
            console.print(Text(f"{indent}^", style="good"), soft_wrap=True)
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    if errors:
        console.print(f"{counted(errors, 'error')} generated.", style="bad")


def print_arrays(console: Console, arrays: Mapping[str, Array]) -> None:
    """Print what a kernel wrote: type, range and first elements of each array."""
    columns = plain_columns("array", "type", "least", "most", "first elements")
    rows = []
    for name, array in arrays.items():
        flat = array.reshape(-1)
        numbers = flat.astype(np.float64) if array.dtype.kind != "c" else np.abs(flat)
        least, most = (numbers.min(), numbers.max()) if flat.size else (np.nan, np.nan)
        first = ", ".join(f"{v:.6g}" for v in numbers[:_SHOWN_ELEMENTS])
        more = ", …" if flat.size > _SHOWN_ELEMENTS else ""
        shape = ",".join(map(str, array.shape))
        figures = f"{array.dtype}[{shape}]", f"{least:.6g}", f"{most:.6g}", first + more
        rows.append([Text(name, style="task"), *map(Text, figures)])
    console.print(FittedTable(columns, rows))


def print_reports(
    console: Console, reports: Sequence[SanitizerReport], file: str, lines: Sequence[str]
) -> None:
    """Print what the sanitizer saw, with the line of the text."""
    for r in reports:
        name = file if r.file == "source" else r.file
        head = Text(f"{name}:{r.line}: ", style="task").append(f"{r.kind}: ", style="bad")
        console.print(head.append(r.message), soft_wrap=True)
        if r.file == "source" and 0 < r.line <= len(lines):
            console.print(Text(f"  {lines[r.line - 1].strip()}", style="quiet"), soft_wrap=True)
    if reports:
        console.print(f"{counted(len(reports), 'finding')}.", style="bad")
    else:
        console.print("The sanitizer found nothing.", style="good")


def print_counters(console: Console, counters: Counters) -> None:
    """Print what a launch cost."""
    columns = plain_columns("buffer", "read", "written", "sectors read", "sectors written")
    rows = []
    for b in counters.buffers:
        nbytes = in_bytes(b.bytes_read), in_bytes(b.bytes_written)
        sectors = f"{b.sectors_read:,}", f"{b.sectors_written:,}"
        rows.append([Text(b.name, style="task"), *map(Text, (*nbytes, *sectors))])
    console.print(FittedTable(columns, rows))
    figures: dict[str, int | str] = {
        "threads": counters.threads,
        "threadgroups": counters.threadgroups,
        "threadgroup memory": in_bytes(counters.threadgroup_bytes),
        "barriers": counters.barriers,
        "simd operations": counters.simd_operations,
        "float operations": counters.float_operations,
        "special operations": counters.special_operations,
        "integer operations": counters.integer_operations,
        "matrix operations": counters.matrix_operations,
        "atomic operations": counters.atomic_operations,
        "bank conflicts": counters.bank_conflicts,
        "divergent branches": counters.divergent_branches,
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    for label, value in figures.items():
        text = f"{value:,}" if isinstance(value, int) else value
        grid.add_row(Text(label, style="label"), Text(text, style="figure"))
    console.print(grid)
    if 0 < (counted := counters.counted_threadgroups or 0) < counters.threadgroups:
        console.print(
            f"sampled: {counted:,} of {counters.threadgroups:,} threadgroups, sums ±"
            f"{counters.sampling_error:.1%}, distinct bytes estimated; --exact counts all",
            style="quiet",
            highlight=False,
            soft_wrap=True,
        )


def print_predictions(console: Console, predictions: Sequence[Prediction]) -> None:
    """Print predicted times; every row says that it is one."""
    columns = plain_columns("chip", "predicted", "bound by", "of bandwidth", "")
    rows = []
    for p in predictions:
        figures = f"~{in_microseconds(p.time_us)}", p.bound, f"{p.bandwidth_share:.0%}"
        label = Text(p.label, style="quiet")
        rows.append([Text(p.chip, style="task"), *map(Text, figures), label])
    console.print(FittedTable(columns, rows))
    if caveat := caveat_of(p.chip for p in predictions):
        console.print(caveat, style="quiet", highlight=False, soft_wrap=True)
