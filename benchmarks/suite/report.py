"""A run as a Markdown table and two plots."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.suite.result import SuiteRun, WorkloadResult
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.evaluator.speed.statistics import geometric_mean

mpl.use("Agg")
_WAYS = ("eager", "compile", "fast")
_COLOURS = {"f16": "#2a6f97", "bf16": "#e07a5f", "f32": "#81a684"}


def write_report(run: SuiteRun, path: Path) -> Path:
    """Write `NAME.md` and the plots beside the run's JSON; returns the Markdown's path."""
    plots = {
        f"{path.stem}-speedup.svg": _plot_speedups,
        f"{path.stem}-roofline.svg": _plot_shares,
    }
    for name, plot in plots.items():
        plot(run, path.with_name(name))
    report = path.with_suffix(".md")
    report.write_text(markdown(run, list(plots)))
    return report


def markdown(run: SuiteRun, plots: Sequence[str] = ()) -> str:
    """Render the run, losses first."""
    timed = sorted((r for r in run.results if r.speedup), key=_gain)
    failed = [r for r in run.results if not r.speedup]
    bound = [r for r in timed if r.is_memory_bound]
    lines = [
        f"# The suite on {run.device.chip}",
        "",
        (
            f"MLX {run.mlx} ({run.device.runtime}); a copy of 256 MiB moved "
            f"{run.copy_bytes_per_s / 1e12:.2f} TB/s in this run, an empty launch took "
            f"{run.launch_us:.1f} µs. Baselines are the workload as written, eager and under "
            "`mx.compile`, and compiled with the kernels of `mx.fast` where MLX has one for it or "
            "a part of it; the speedup is against the fastest, which is named beside it. Intervals "
            "are 95 % bootstrap intervals of the median paired ratio. The last columns "
            "are shares of that copy's bandwidth, and of what a copy of as many bytes as the row "
            "moves reaches by the row's own protocol."
        ),
        "",
        (
            f"Geometric mean speedup: {_mean(bound)} over {len(bound)} memory-bound rows, "
            f"{_mean(timed)} over all {len(timed)}; with those left to MLX counted as 1, "
            f"{_mean(timed, len(failed))} over {len(timed) + len(failed)}."
        ),
        *_confirmation(timed),
        "",
        *(f"![{name}]({name})" for name in plots),
        "",
        (
            "| workload | dtype | ours µs | eager | compile | fast | fastest | speedup | interval "
            "| again | of copy | of its size |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(r, run.copy_bytes_per_s) for r in timed),
    ]
    if failed:
        lines += ["", "Not served, left to MLX:", ""]
        lines += [f"- {r.name} {r.dtype.short}: {r.problem}" for r in failed]
    return "\n".join(lines) + "\n"


def _row(result: WorkloadResult, bytes_per_s: float) -> str:
    best, share = result.speedup, result.share_of_copy(bytes_per_s)
    assert best is not None
    assert share is not None
    timed = result.baselines_us
    ways = " | ".join(f"{timed[n]:.1f}" if n in timed else "–" for n in _WAYS)
    again = f"{result.confirmed.ratio:.2f}x" if result.confirmed else ""
    own = result.share_of_own_copy
    own_share = "" if own is None else f"{100 * own:.0f} %"
    return (
        f"| {result.name} | {result.dtype.short} | {result.candidate_us:.1f} | {ways} "
        f"| {result.fastest_baseline or best.baseline} | {best.ratio:.2f}x "
        f"| {best.lower:.2f}–{best.upper:.2f} | {again} | {100 * share:.0f} % | {own_share} |"
    )


def _interval(speedup: Speedup) -> tuple[float, float]:
    """Return the interval of a measured speedup; the suite has no others."""
    assert speedup.lower is not None
    assert speedup.upper is not None
    return speedup.lower, speedup.upper


def _gain(result: WorkloadResult) -> float:
    return result.speedup.ratio if result.speedup else 0.0


def _mean(results: Sequence[WorkloadResult], ones: int = 0) -> str:
    if not results:
        return "–"
    return f"{geometric_mean([*(_gain(r) for r in results), *[1.0] * ones]):.2f}x"


def _confirmation(timed: Sequence[WorkloadResult]) -> list[str]:
    again = [r.confirmed for r in timed if r.confirmed]
    if not again:
        return []
    slower = sum(_interval(c)[1] < 1 for c in again)
    return [
        "",
        (
            f"{len(again)} gains were timed again in a fresh process with fresh inputs and "
            f"reversed order: {slower} of them were slower than their baseline there."
        ),
    ]


def _plot_speedups(run: SuiteRun, path: Path) -> None:
    names = list(dict.fromkeys(r.name for r in sorted(run.results, key=_gain) if r.speedup))
    figure, axes = plt.subplots(figsize=(9, 0.26 * len(names) + 1.2), layout="constrained")
    axes.axvline(1, color="#888888", linewidth=1)
    for dtype, colour in _COLOURS.items():
        rows = [r for r in run.results if r.speedup and r.dtype.short == dtype]
        if not rows:
            continue
        places = [names.index(r.name) for r in rows]
        ratios = [_gain(r) for r in rows]
        below = [max(_gain(r) - _interval(r.speedup)[0], 0.0) for r in rows if r.speedup]
        above = [max(_interval(r.speedup)[1] - _gain(r), 0.0) for r in rows if r.speedup]
        axes.errorbar(
            ratios, places, xerr=[below, above], fmt="o", color=colour, label=dtype, markersize=4
        )
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}x")
    axes.set_xlabel(f"speedup over MLX at its fastest, {run.device.chip}")
    axes.legend(frameon=False)
    axes.grid(axis="x", alpha=0.2)
    figure.savefig(path)
    plt.close(figure)


def _plot_shares(run: SuiteRun, path: Path) -> None:
    rows = [r for r in run.results if r.speedup and r.is_memory_bound]
    rows.sort(key=lambda r: r.share_of_copy(run.copy_bytes_per_s) or 0.0)
    figure, axes = plt.subplots(figsize=(9, 0.11 * len(rows) + 1.2), layout="constrained")
    shares = [100 * (r.share_of_copy(run.copy_bytes_per_s) or 0.0) for r in rows]
    axes.barh(range(len(rows)), shares, color=[_COLOURS[r.dtype.short] for r in rows])
    axes.axvline(85, color="#888888", linewidth=1, linestyle="--")
    labels = [f"{r.name} {r.dtype.short}" for r in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=5)
    axes.set_xlabel("least bytes over time, % of the copy bandwidth measured in the same run")
    figure.savefig(path)
    plt.close(figure)
