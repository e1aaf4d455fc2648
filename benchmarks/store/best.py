"""Times `KernelStore.best` over a million evaluations.

Run `python -m benchmarks.store.best --write`; it fills a store of about 5 GB once (`--folder`) and
writes the figures to docs/store.md.
"""

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.store.population import CHIPS, DTYPES, EXTENTS, OPS, Population, fill
from kernelwright.store import Champion, KernelStore

PAGE = Path(__file__).parents[2] / "docs" / "store.md"
BEGIN, END = "<!-- best: begin -->\n", "<!-- best: end -->\n"
ROUNDS = 200
Taken = tuple[float, float]
"""Milliseconds on the clock, and of the CPU: they part where others want the machine, too."""
Ask = Callable[[KernelStore, random.Random], tuple[Champion, ...]]

QUESTIONS: dict[str, Ask] = {
    "everything": lambda store, draw: store.best(),
    "a device": lambda store, draw: store.best(device="metal"),
    "a frequent op": lambda store, draw: store.best(op=OPS[0]),
    "any op": lambda store, draw: store.best(op=draw.choice(OPS)),
    "op and dtype": lambda store, draw: store.best(op=draw.choice(OPS), dtype=draw.choice(DTYPES)),
    "op, dtype, shape and device": lambda store, draw: store.best(
        op=draw.choice(OPS), dtype=draw.choice(DTYPES), shape=_shape(draw), device="metal"
    ),
    "a shape": lambda store, draw: store.best(shape=_shape(draw)),
    "an op that is not there": lambda store, draw: store.best(op="nothing"),
    "a shape that is not there": lambda store, draw: store.best(shape="3,5"),
    "a device that is not there": lambda store, draw: store.best(device="cuda"),
}


@dataclass(frozen=True)
class Figure:
    """How long one kind of question takes."""

    question: str
    median_ms: float
    p99_ms: float
    cpu_median_ms: float
    cpu_p99_ms: float
    rows: float


def main() -> None:
    """Fill, ask, print, and write the page on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="Keep the store here, or use the one there.")
    parser.add_argument("--write", action="store_true", help="Write docs/store.md.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = (asked.folder or Path(scratch)) / f"best-{asked.evaluations}.db"
        if not path.exists():
            fill(path, Population(asked.evaluations))
        with KernelStore(str(path), must_exist=True) as store:
            text = _report(store, measure(store))
    print(text)
    if asked.write:
        page = PAGE.read_text()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}")


def measure(store: KernelStore) -> list[Figure]:
    """Ask every question often, in turn, so that none has the caches to itself."""
    draw = random.Random(0)
    taken: dict[str, list[Taken]] = {question: [] for question in QUESTIONS}
    rows: dict[str, list[int]] = {question: [] for question in QUESTIONS}
    for _ in range(ROUNDS):
        for question, ask in QUESTIONS.items():
            begun, worked = time.perf_counter(), time.thread_time()
            found = ask(store, draw)
            spent = (time.perf_counter() - begun, time.thread_time() - worked)
            taken[question].append((spent[0] * 1e3, spent[1] * 1e3))
            rows[question].append(len(found))
    everything = [spent for times in taken.values() for spent in times]
    figures = [_figure(q, times, rows[q]) for q, times in taken.items()]
    return [*figures, _figure("**all**", everything, [n for r in rows.values() for n in r])]


def _figure(question: str, taken: list[Taken], rows: list[int]) -> Figure:
    wall, cpu = (statistics.quantiles(times, n=100) for times in zip(*taken, strict=True))
    return Figure(question, wall[49], wall[98], cpu[49], cpu[98], statistics.mean(rows))


def _report(store: KernelStore, figures: list[Figure]) -> str:
    held = store.statistics()
    size = (held.size_bytes or 0) / 1e9
    where = (
        f"{held.rows['evaluation']:,} evaluations, {held.rows['task']:,} tasks, "
        f"{held.rows['champion']:,} champions on {len(CHIPS)} chips, {size:.1f} GB; "
        f"{ROUNDS} rounds of every question on {platform.system()} {platform.machine()} with "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}."
    )
    rows = [
        f"| {f.question} | {f.median_ms:.2f} | {f.p99_ms:.2f} | {f.cpu_median_ms:.2f} | "
        f"{f.cpu_p99_ms:.2f} | {f.rows:.0f} |"
        for f in figures
    ]
    head = "| question | p50 ms | p99 ms | p50 CPU ms | p99 CPU ms | rows |"
    return "\n".join([where, "", head, "|---|---:|---:|---:|---:|---:|", *rows, ""])


def _shape(draw: random.Random) -> str:
    return f"{draw.choice(EXTENTS)},{draw.choice(EXTENTS)}"


if __name__ == "__main__":
    main()
