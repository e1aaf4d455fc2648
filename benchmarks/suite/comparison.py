"""Two runs side by side, with what got slower marked."""

from benchmarks.suite.result import SuiteRun, WorkloadResult
from kernelwright.errors import InputError

_REGRESSION = 0.97
"""A speedup that fell below this share of what it was counts as a regression."""


def compare(before: SuiteRun, after: SuiteRun) -> tuple[str, int]:
    """Return a Markdown table of both runs' speedups, and the number of regressions.

    Raises:
        InputError: the runs come from different chips, so that nothing can be compared.
    """
    if before.device.chip != after.device.chip:
        raise InputError(
            f"expected two runs of one chip, found {before.device.chip!r} and "
            f"{after.device.chip!r}; run both on the same machine."
        )
    old = {(r.name, r.dtype): r for r in before.results}
    rows = ["| workload | dtype | before | after | |", "|---|---|---|---|---|"]
    regressions = 0
    for result in after.results:
        mark = _mark(old.get((result.name, result.dtype)), result)
        regressions += mark == "slower"
        earlier = _ratio(old.get((result.name, result.dtype)))
        rows.append(
            f"| {result.name} | {result.dtype.short} | {earlier} | {_ratio(result)} | {mark} |"
        )
    return "\n".join(rows), regressions


def _ratio(result: WorkloadResult | None) -> str:
    if result is None or result.speedup is None:
        return "–"
    return f"{result.speedup.ratio:.2f}x"


def _mark(before: WorkloadResult | None, after: WorkloadResult) -> str:
    if before is None or before.speedup is None:
        return "new" if after.speedup else ""
    if after.speedup is None:
        return "slower"
    # Intervals that overlap are no news, however far apart their middles are.
    if after.speedup.upper < before.speedup.lower * _REGRESSION:
        return "slower"
    return "faster" if after.speedup.lower > before.speedup.upper else ""
