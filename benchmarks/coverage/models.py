"""Captures every architecture of mlx-lm and checks that its graph replays bit for bit.

Run `python -m benchmarks.coverage.models` (a few minutes on two cores); `--only NAME` picks one.
It writes docs/coverage.md.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import mlx_lm

from benchmarks.coverage.configuration import LAYERS, Architecture, architectures
from benchmarks.coverage.planning import Timing, time_step
from benchmarks.coverage.step import Step, steps
from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.plan import partition

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


@dataclass
class Row:
    """What one architecture showed."""

    name: str
    steps: dict[str, str] = field(default_factory=dict)
    nodes: int = 0
    canonical_nodes: int = 0
    regions: int = 0
    timings: list[Timing] = field(default_factory=list)
    unknown: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_exact(self) -> bool:
        """True when every step replayed bit for bit, before and after canonicalisation."""
        return not self.note and set(self.steps.values()) == {"exact"}

    @property
    def slowdown(self) -> float:
        """Capturing its steps as a multiple of MLX's own traces of those that it can export."""
        timed = [t for t in self.timings if t.trace_s]
        return sum(t.capture_s for t in timed) / max(sum(t.trace_s for t in timed), 1e-9)

    @property
    def plan_s(self) -> float:
        """Seconds to plan its slowest step."""
        return max((t.plan_s for t in self.timings), default=0.0)


def main() -> int:
    """Sweep, print a line an architecture, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    rows = []
    for architecture in architectures():
        if options.only and architecture.name not in options.only:
            continue
        rows.append(sweep(architecture))
        print(_line(rows[-1]), flush=True)
    exact = sum(row.is_exact for row in rows)
    print(f"{exact} of {len(rows)} architectures replay exactly")
    if not options.only and not options.no_page:
        PAGE.write_text(page(rows))
    return 0


def sweep(architecture: Architecture) -> Row:
    """Capture a prompt, a batch of two and a cached decode step, and replay each."""
    row = Row(architecture.name)
    mx.random.seed(7)
    try:
        model = architecture.build()
        mx.eval(model.parameters())  # type: ignore[attr-defined]
        for name, step, arrays in steps(model):
            row.steps[name] = _replay(row, step, arrays)
    except KernelwrightError as e:
        row.note = str(e)
    except Exception as e:
        row.note = f"{type(e).__name__}: {e}".replace("\n", " ")
    return row


def _replay(row: Row, step: Step, arrays: Sequence[mx.array]) -> str:
    try:
        expected = step(*arrays)
        mx.eval(expected)
    except RuntimeError as e:
        if "No Metal back-end" not in str(e):
            raise
        kernels = [n for n in ir.capture(step, *arrays).nodes if n.op == "custom_kernel"]
        row.note = f"calls {len(kernels)} Metal kernels of its own, which only Metal can run"
        return "captured"
    graph = ir.capture(step, *arrays)
    row.timings.append(time_step(step, arrays))
    canonical = ir.canonicalize(graph)
    ir.verify(canonical)
    row.nodes += len(graph.nodes)
    row.canonical_nodes += len(canonical.nodes)
    row.regions += len(partition(canonical))
    row.unknown = tuple(sorted({n.op for n in graph.nodes if n.op not in ir.OPS}))
    for label, candidate in (("captured", graph), ("canonical", canonical)):
        found = ir.interpret(candidate, *arrays)[0]
        if not mx.array_equal(found, expected, equal_nan=True):
            distance = mx.abs(found.astype(mx.float32) - expected.astype(mx.float32)).max()
            return f"{label} graph differs by {distance.item():.2g}"
    return "exact"


def _line(row: Row) -> str:
    steps = ", ".join(f"{name} {result}" for name, result in row.steps.items())
    return f"{row.name:24} {steps} {row.nodes} nodes {row.regions} regions {row.note[:150]}"


def page(rows: Sequence[Row]) -> str:
    """Render the sweep as a Markdown page."""
    exact = [row for row in rows if row.is_exact]
    timed = [t for row in exact for t in row.timings if t.trace_s]
    slowdown = sum(t.capture_s for t in timed) / max(sum(t.trace_s for t in timed), 1e-9)
    slowest = max(exact, key=lambda row: row.plan_s)
    versions = f"mlx-lm {mlx_lm.__version__} and MLX {mx.__version__}"
    head = f"""# Coverage: the architectures of mlx-lm

Written by `python -m benchmarks.coverage.models` with {versions} on the CPU.
Every family is built with a tiny configuration of {LAYERS} layers and random weights. A prompt,
a batch of two and a decode step behind a cached prompt are captured, canonicalized and replayed;
*exact* means equal in every bit to calling the model, before and after canonicalization.

[The regions](regions.md) that the planner chooses in them are proved one by one.

**{len(exact)} of {len(rows)}** families replay exactly. Capturing took {slowdown:.2f} times as
long as MLX's own trace, over all of them. No step took longer to plan than {slowest.plan_s:.2f} s
({slowest.name}): its canonical form, the cut, and the text of the first kernel of every distinct
region. `python -m benchmarks.coverage.planning` times that alone. Times are of the processor, the
best of three.

| family | prompt | batch | decode | nodes | canonical | regions | capture | plan | note |
|---|---|---|---|---:|---:|---:|---:|---:|---|
"""
    lines = [
        f"| {row.name} | "
        + " | ".join(row.steps.get(step, "–") for step in ("prompt", "batch", "decode"))
        + f" | {row.nodes} | {row.canonical_nodes} | {row.regions} | {_times(row)} | {_note(row)} |"
        for row in rows
    ]
    return head + "\n".join(lines) + "\n"


def _times(row: Row) -> str:
    if not row.timings:
        return "– | –"
    capture = f"{row.slowdown:.2f}x" if row.slowdown else "–"
    return f"{capture} | {row.plan_s:.2f} s"


def _note(row: Row) -> str:
    unknown = f"left to MLX: {', '.join(row.unknown)}" if row.unknown else ""
    return textwrap.shorten(row.note or unknown, 200, placeholder="…").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
