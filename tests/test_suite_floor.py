"""The suite's floors: no measured kernel is below its own, and the report says what they are of."""

from pathlib import Path

import pytest

from benchmarks.suite.ceilings import Ceilings, Point, floor_of
from benchmarks.suite.report import markdown
from benchmarks.suite.result import SuiteRun, WorkloadResult
from benchmarks.suite.search import capture
from benchmarks.suite.sets import find
from kernelwright.evaluator.speed.dependence import Group

_RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
_RUNS = {
    name: SuiteRun.load(_RESULTS / f"{name}.json")
    for name in ("h200-f16", "h200-bf16", "h200-f32", "h200-f16-collected", "h200-f16-further")
}
_ROWS = [(name, row) for name, run in _RUNS.items() for row in run.results if row.candidate_us]
_CEILINGS = Ceilings.of("NVIDIA H200")


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{name} {row.name} {row.dtype.short}") for name, row in _ROWS]
)
def test_no_kernel_is_below_its_floor(row: WorkloadResult) -> None:
    assert _CEILINGS is not None
    assert row.candidate_us is not None
    floor = floor_of(capture(find(row.name), row.dtype), _CEILINGS)
    assert floor.time_us <= row.candidate_us, floor.reason


def test_no_chip_has_ceilings_that_nobody_measured() -> None:
    assert Ceilings.of("m4") is None
    assert Ceilings.of("no such chip") is None


def test_moving_more_takes_longer_and_no_mixture_of_sizes_is_faster() -> None:
    moved = [Point(nbytes=n, time_us=t) for n, t in ((1, 9), (2, 5), (10, 25), (20, 30), (30, 47))]
    ceilings = Ceilings(
        chip="h200", moved=tuple(moved), read_again=(), launch_us=4, functions_per_us=1
    )
    assert [ceilings.move_us(n) for n in (1, 2, 11, 20, 25, 60)] == [5, 5, 17.5, 30, 38.5, 94]


@pytest.mark.parametrize(("nbytes", "time_us"), [(400_000, 0), (20 << 20, 5), (40 << 20, 10)])
def test_what_one_core_holds_is_not_read_again(nbytes: int, time_us: float) -> None:
    again = tuple(Point(nbytes=n << 20, time_us=n / 4) for n in (10, 20, 30))
    ceilings = Ceilings(chip="h200", moved=(), read_again=again, launch_us=4, functions_per_us=1)
    assert ceilings.read_again_us(Group(nbytes, 1, "sum")) == time_us


def test_the_report_says_what_each_floor_is_of() -> None:
    run = _RUNS["h200-f16-collected"]
    by_name = {row.name: row for row in run.results}
    fast, slow = by_name["layer_scale_residual"], by_name["global_response_norm"]
    assert slow.copy_us is not None
    rows = (fast, slow.model_copy(update={"candidate_us": 2 * slow.copy_us}))
    text = markdown(run.model_copy(update={"results": rows}))
    assert "Of the 2 rows of the half that is worked with, 1 reach 85% of a copy" in text
    assert "moves 154 MB |" in text
    assert "moves 103 MB and reads 1.61 MB again: sum over one of 32 groups first |" in text
    assert "only measured" not in text
