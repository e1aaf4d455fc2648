"""Measures a fleet on a real PostgreSQL; evaluations take a simulated time.

python -m benchmarks.fleet speedup [--tasks 30] [--latency 3] [--each 3] [--write]
python -m benchmarks.fleet sweep [--kills 60]
python -m benchmarks.fleet simulate [--workers 1000] [--candidates 1000000] [--write]
"""

import argparse
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fleet import scene, simulation, speedup, sweep
from kernelwright.store.embedded import create_database, embedded_server

_RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Run one of the commands; 1 when a sweep found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speedup", "sweep", "simulate"))
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--latency", type=float, default=3.0)
    parser.add_argument("--each", type=int, default=3, help="Candidates of a task.")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="write the tables and plots")
    asked = parser.parse_args()
    with _databases() as database, tempfile.TemporaryDirectory() as folder:
        if asked.what == "sweep":
            tally = sweep.sweep(database, Path(folder), scene.captured(6), asked.kills, asked.seed)
            print(tally)
            return 1 if tally.problems else 0
        if asked.what == "simulate":
            text = simulation.report(
                database(),
                asked.workers,
                asked.candidates,
                _RESULTS / "fleet-simulation" if asked.write else None,
            )
            print(text)
            return 0
        runs = speedup.measure(
            database, scene.captured(asked.tasks), asked.counts, asked.latency, asked.each
        )
    table = _table(runs)
    print(table)
    if asked.write:
        (_RESULTS / "fleet-speedup.md").write_text(table + "\n")
        _plot(runs, _RESULTS / "fleet-speedup.svg")
    return 0


@contextmanager
def _databases() -> Iterator[Callable[[], str]]:
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-pg-"))
    with embedded_server(folder / "data", at_the_end="delete") as server:
        yield lambda: create_database(server.url, f"fleet_{uuid.uuid4().hex}")
    shutil.rmtree(folder, ignore_errors=True)


def _table(runs: Sequence[speedup.Run]) -> str:
    first = runs[0]
    command = f"speedup --tasks {first.tasks} --latency {first.latency_s:g}"
    loads = ", ".join(f"{r.load:.0f}" for r in runs)
    lines = [
        f"One campaign of {first.tasks} tasks and {first.candidates} candidates, on a fleet of one",
        f"machine; an evaluation takes a simulated {first.latency_s:g} s, while PostgreSQL, queue,",
        f"workers and campaign are real. `python -m benchmarks.fleet {command} --write`",
        f"{os.cpu_count()} cores, at loads of {loads}.",
        "",
        "| workers | seconds | times one worker |",
        "|---:|---:|---:|",
    ]
    lines += [f"| {r.workers} | {r.seconds:.1f} | {first.seconds / r.seconds:.2f}× |" for r in runs]
    return "\n".join(lines)


def _plot(runs: Sequence[speedup.Run], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kernelwright"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6))
    counts = [r.workers for r in runs]
    axes.plot(counts, counts, linestyle="--", color="grey", linewidth=1, label="as many times")
    axes.plot(counts, [runs[0].seconds / r.seconds for r in runs], marker="o", label="measured")
    for run in runs:
        place = (run.workers, runs[0].seconds / run.seconds)
        axes.annotate(f"{run.seconds:.0f} s", place, textcoords="offset points", xytext=(8, -12))
    axes.set_xticks(counts)
    axes.set_xlabel("workers on one machine")
    axes.set_ylabel("times one worker")
    axes.set_title(f"{runs[0].tasks} tasks, {runs[0].latency_s:g} s simulated per evaluation")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    axes.margins(x=0.12, y=0.12)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
