"""A run as a Markdown table and two plots."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.suite.ceilings import Ceilings, floor_of
from benchmarks.suite.result import SuiteRun, WorkloadResult
from benchmarks.suite.search import capture
from benchmarks.suite.sets import HALVES, SETS
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.evaluator.speed.floor import Floor
from kernelwright.evaluator.speed.statistics import geometric_mean
from kernelwright.ir.graph.dtype import Dtype

mpl.use("Agg")
_WAYS = ("eager", "compile", "fast")
_FAST = ", and compiled with the kernels of `mx.fast` where MLX has one for it or a part of it"
_BAR = 0.85
"""Of a copy of its size, that a row should reach."""
_ABOUT = 1.15
"""Times its floor, within which a row should be otherwise."""
_FLOORS = (
    "The floor is the least that any kernel of the function takes, by what plain programs take on "
    "the same chip: every byte that the results depend on moves once, as fast as anything moved as "
    "many; where all of a group of data must be read before the map of any of it can be written, "
    "and one core's registers and threadgroup memory cannot hold the group, one group is read "
    "again as a sum over an array in one launch and its map in the next take longer than a copy; "
    "and transcendental functions of different arguments take what the fastest of them does. The "
    "longest part decides. Contractions, sorts, other arithmetic and what a library's function "
    "takes to be accurate are left out, so that the true floor may be higher."
)
Floors = Mapping[tuple[str, Dtype], Floor]
"""By name and dtype."""
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
    floors = floors_of(run)
    ways = [way for way in _WAYS if any(way in r.baselines_us for r in run.results)]
    lines = [
        f"# The suite on {run.device.chip}",
        "",
        (
            f"MLX {run.mlx} ({run.device.runtime}); a copy of 256 MiB moved "
            f"{run.copy_bytes_per_s / 1e12:.2f} TB/s in this run, an empty launch took "
            f"{run.launch_us:.1f} µs. Baselines are the workload as written, eager and under "
            f"`mx.compile`{_FAST if 'fast' in ways else ''}; the speedup is against the fastest, "
            "which is named beside it. Intervals "
            "are 95 % bootstrap intervals of the median paired ratio. The columns after them "
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
        *_reached(timed, floors),
        "",
        *(f"![{name}]({name})" for name in plots),
        "",
        (
            f"| workload | dtype | ours µs | {' | '.join(ways)} | fastest | speedup | interval "
            f"| again | of copy | of its size |{' of floor | its floor |' if floors else ''}"
        ),
        "|---" * (9 + len(ways) + 2 * bool(floors)) + "|",
        *(_row(r, run.copy_bytes_per_s, ways) + _floor(r, floors) for r in timed),
    ]
    if failed:
        lines += ["", "Not served, left to MLX:", ""]
        lines += [f"- {r.name} {r.dtype.short}: {r.problem}" for r in failed]
    return "\n".join(lines) + "\n"


def floors_of(run: SuiteRun) -> Floors:
    """Return the floor of each row, none where the chip's ceilings were not measured."""
    ceilings = Ceilings.of(run.device.chip)
    if ceilings is None:
        return {}
    known = {w.name: w for workloads in SETS.values() for w in workloads}
    return {
        (r.name, r.dtype): floor_of(capture(known[r.name], r.dtype), ceilings)
        for r in run.results
        if r.speedup and r.name in known
    }


def _reached(timed: Sequence[WorkloadResult], floors: Floors) -> list[str]:
    """Say how many rows of each half are about as fast as a copy, or as their floor."""
    if not floors:
        return []
    lines = ["", _FLOORS]
    for half, workloads in HALVES.items():
        names = {w.name for w in workloads}
        rows = [r for r in timed if r.name in names]
        copies = [r for r in rows if (r.share_of_own_copy or 0.0) >= _BAR]
        others = [r for r in rows if r not in copies and _is_near(r, floors)]
        if rows:
            lines += [
                "",
                (
                    f"Of the {len(rows)} rows of the half that is {half}, {len(copies)} reach "
                    f"{_BAR:.0%} of a copy of their size, and {len(others)} others are within "
                    f"{_ABOUT - 1:.0%} of their floor."
                ),
            ]
    return lines


def _is_near(result: WorkloadResult, floors: Floors) -> bool:
    floor = floors.get((result.name, result.dtype))
    if floor is None or result.candidate_us is None:
        return False
    return result.candidate_us <= _ABOUT * floor.time_us


def _floor(result: WorkloadResult, floors: Floors) -> str:
    """Render the cells of a row's floor; nothing where no row has one."""
    if not floors:
        return ""
    floor = floors.get((result.name, result.dtype))
    if floor is None or result.candidate_us is None:
        return " | |"
    share = floor.time_us / result.candidate_us
    return f" {100 * share:.0f} % | {floor.time_us:.1f} µs: {floor.reason} |"


def _row(result: WorkloadResult, bytes_per_s: float, shown: Sequence[str]) -> str:
    best, share = result.speedup, result.share_of_copy(bytes_per_s)
    assert best is not None
    assert share is not None
    timed = result.baselines_us
    ways = " | ".join(f"{timed[n]:.1f}" if n in timed else "–" for n in shown)
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
