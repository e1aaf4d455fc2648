"""What works on this machine, as a page."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.service.view.figure import in_bytes

if TYPE_CHECKING:
    from kernelwright.campaign.execution.device_finding import DeviceFinding
    from kernelwright.campaign.execution.machine import Finding

_TITLES = {
    "device": "devices",
    "compiler": "compilers",
    "key": "model keys",
    "package": "packages",
    "store": "store",
    "setting": "settings",
}


def print_findings(console: Console, findings: "Sequence[Finding]") -> None:
    """Print findings by kind, each with its remedy where it has one."""
    for kind, group in groupby(findings, key=lambda finding: finding.kind):
        console.print(_TITLES[kind], style="title")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=3)
        table.add_column(min_width=12)
        table.add_column()
        for finding in group:
            detail = Text(finding.detail)
            if finding.remedy:
                detail.append(f"\n{finding.remedy}", style="quiet")
            table.add_row(_mark(finding), Text(finding.name, style="task"), detail)
        console.print(table)
    broken = [f.name for f in findings if f.is_needed and not f.works]
    if broken:
        console.print(f"\nNeeded and not working: {', '.join(broken)}.", style="bad")
    else:
        console.print("\nEverything that is needed works.", style="good")


def print_devices(console: Console, found: "Sequence[DeviceFinding]") -> None:
    """Print each device with what identifies it, and how to get the others."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for device in found:
        if device.info is None:
            mark = Text("–", style="quiet")
            table.add_row(mark, Text(device.name), Text(device.remedy, style="quiet"))
            continue
        info = device.info
        limits = f"{info.threads_per_threadgroup} threads and {in_bytes(info.threadgroup_bytes)}"
        facts = Text.assemble(
            info.chip,
            ("  measures time" if info.measures_time else "  counts, and predicts time", "figure"),
            (f"\n{info.runtime}; {limits} a threadgroup", "quiet"),
        )
        table.add_row(Text("✓", style="good"), Text(device.name, style="task"), facts)
    console.print(table)


def _mark(finding: "Finding") -> Text:
    if finding.works:
        return Text(" ✓", style="good")
    return Text(" ✗", style="bad") if finding.is_needed else Text(" –", style="quiet")
