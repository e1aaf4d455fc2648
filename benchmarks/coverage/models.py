"""Captures every architecture of mlx-lm and checks that its graph replays bit for bit.

Run `python -m benchmarks.coverage.models` (a few minutes on two cores); `--only NAME` picks one.
It writes docs/coverage.md.
"""

import argparse
import gc
import math
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import mlx_lm
from mlx_lm.models.cache import make_prompt_cache

from benchmarks.coverage.configuration import LAYERS, Architecture, architectures
from kernelwright import ir
from kernelwright.errors import KernelwrightError

Step = Callable[..., mx.array]

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


@dataclass
class Row:
    """What one architecture showed."""

    name: str
    steps: dict[str, str] = field(default_factory=dict)
    nodes: int = 0
    canonical_nodes: int = 0
    regions: int = 0
    trace_s: float = 0.0
    capture_s: float = 0.0
    unknown: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_exact(self) -> bool:
        """True when every step replayed bit for bit, before and after canonicalisation."""
        return not self.note and set(self.steps.values()) == {"exact"}


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


def steps(model: object) -> list[tuple[str, Step, list[mx.array]]]:
    """Return the ways to call a model: a prompt, a batch of two, and a cached decode step."""
    call: Step = model  # type: ignore[assignment]
    prompt = mx.array([[5, 17, 42, 3, 9, 1]])

    def decode(tokens: mx.array, following: mx.array) -> mx.array:
        cache = make_prompt_cache(model)
        call(tokens, cache=cache)
        return call(following, cache=cache)

    return [
        ("prompt", call, [prompt]),
        ("batch", call, [mx.concatenate([prompt, prompt[:, ::-1]])]),
        ("decode", decode, [prompt, mx.array([[7]])]),
    ]


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
    row.capture_s += _fastest_s(lambda: ir.capture(step, *arrays))
    row.trace_s += _fastest_s(lambda: mx.export_function([].append, step, *arrays))
    canonical = ir.canonicalize(graph)
    ir.verify(canonical)
    row.nodes += len(graph.nodes)
    row.canonical_nodes += len(canonical.nodes)
    row.regions += len(ir.partition(canonical))
    row.unknown = tuple(sorted({n.op for n in graph.nodes if n.op not in ir.OPS}))
    for label, candidate in (("captured", graph), ("canonical", canonical)):
        found = ir.interpret(candidate, *arrays)[0]
        if not mx.array_equal(found, expected, equal_nan=True):
            distance = mx.abs(found.astype(mx.float32) - expected.astype(mx.float32)).max()
            return f"{label} graph differs by {distance.item():.2g}"
    return "exact"


def _fastest_s(action: Callable[[], object]) -> float:
    """Time an action after a collection, the best of three; 0 where MLX refuses to export."""
    best = math.inf
    for _ in range(3):
        gc.collect()
        started = time.perf_counter()
        try:
            action()
        except ValueError:
            return 0.0
        best = min(best, time.perf_counter() - started)
    return best


def _line(row: Row) -> str:
    steps = ", ".join(f"{name} {result}" for name, result in row.steps.items())
    return f"{row.name:24} {steps} {row.nodes} nodes {row.regions} regions {row.note[:150]}"


def page(rows: Sequence[Row]) -> str:
    """Render the sweep as a Markdown page."""
    exact = [row for row in rows if row.is_exact]
    timed = [row for row in exact if row.trace_s]
    slowdown = sum(r.capture_s for r in timed) / max(sum(r.trace_s for r in timed), 1e-9)
    versions = f"mlx-lm {mlx_lm.__version__} and MLX {mx.__version__}"
    head = f"""# Coverage: the architectures of mlx-lm

Written by `python -m benchmarks.coverage.models` with {versions} on the CPU.
Every family is built with a tiny configuration of {LAYERS} layers and random weights. A prompt,
a batch of two and a decode step behind a cached prompt are captured, canonicalized and replayed;
*exact* means equal in every bit to calling the model, before and after canonicalization.

[The regions](regions.md) that the planner chooses in them are proved one by one.

**{len(exact)} of {len(rows)}** families replay exactly. Capturing took {slowdown:.2f} times as
long as MLX's own trace, over all of them.

| family | prompt | batch | decode | nodes | canonical | regions | note |
|---|---|---|---|---:|---:|---:|---|
"""
    lines = [
        f"| {row.name} | "
        + " | ".join(row.steps.get(step, "–") for step in ("prompt", "batch", "decode"))
        + f" | {row.nodes} | {row.canonical_nodes} | {row.regions} | {_note(row)} |"
        for row in rows
    ]
    return head + "\n".join(lines) + "\n"


def _note(row: Row) -> str:
    unknown = f"left to MLX: {', '.join(row.unknown)}" if row.unknown else ""
    return textwrap.shorten(row.note or unknown, 200, placeholder="…").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
