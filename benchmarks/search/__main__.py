"""Records what schedules take, and compares how fast policies find the good ones.

python -m benchmarks.search landscape [--tasks 40]
python -m benchmarks.search ablation [--budget 480] [--write]
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.search import ablation, landscape
from kernelwright.ir.graph.dtype import Dtype

_RESULTS = Path(__file__).parents[1] / "results"
_SEEDS = 3
_REPORTED = (20, 40, 80, 160, 320, 480)
Curves = Mapping[str, Sequence[Sequence[float]]]
"""By policy, a curve for each seed."""


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("landscape", "ablation"))
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--budget", type=int, default=480)
    parser.add_argument("--write", action="store_true", help="write the table and the plot")
    asked = parser.parse_args()
    if asked.what == "landscape":
        landscape.measure(asked.tasks, Dtype.FLOAT16)
        return
    problems = ablation.problems(landscape.read())
    curves = {
        name: [
            list(ablation.run(problems, ablation.policies(seed)[name], budget=asked.budget))
            for seed in range(_SEEDS if "random" in name else 1)
        ]
        for name in ablation.policies(0)
    }
    table = _table(curves, len(problems))
    print(table)
    if asked.write:
        (_RESULTS / "search-ablation.md").write_text(table + "\n")
        _plot(curves, _RESULTS / "search-ablation.svg", len(problems))


def _table(curves: Curves, tasks: int) -> str:
    budget = len(next(iter(curves.values()))[0])
    columns = [count for count in _REPORTED if count <= budget]
    lines = [
        f"The share of the possible saving over MLX's best that is reached: {tasks} tasks of the",
        "catalog in float16, times predicted for an M4 Pro; the median of",
        f"{_SEEDS} seeds where something is random.",
        "",
        "| policy | " + " | ".join(f"{c} evaluations" for c in columns) + " | to 95 % |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for name, runs in curves.items():
        shares = [statistics.median(run[c - 1] for run in runs) for c in columns]
        reached = statistics.median(_first(run, 0.95) for run in runs)
        words = f"{reached:.0f}" if reached <= budget else f"over {budget}"
        cells = " | ".join(f"{share:.1%}" for share in shares)
        lines.append(f"| {name} | {cells} | {words} |")
    return "\n".join(lines)


def _first(run: Sequence[float], share: float) -> int:
    return next((i + 1 for i, found in enumerate(run) if found >= share), len(run) + 1)


def _plot(curves: Curves, path: Path, tasks: int) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kernelwright"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, runs in curves.items():
        steps = range(1, len(runs[0]) + 1)
        middle = [statistics.median(values) for values in zip(*runs, strict=True)]
        (line,) = axes.plot(steps, middle, label=name, linewidth=1.8)
        if len(runs) > 1:
            low = [min(values) for values in zip(*runs, strict=True)]
            high = [max(values) for values in zip(*runs, strict=True)]
            axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.15)
    axes.set_xlabel("evaluations")
    axes.set_ylabel("share of the possible saving")
    axes.set_ylim(0, 1.02)
    axes.set_title(f"{tasks} tasks, predicted times (M4 Pro)")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
