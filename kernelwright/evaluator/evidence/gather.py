"""Judges the corpus and the catalog's kernels on this machine, beside the simulator."""

import os
import time
from collections.abc import Callable, Sequence

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.evidence.judging import judge
from kernelwright.evaluator.evidence.record import Evidence, Machine
from kernelwright.evaluator.evidence.result import Comparison, Row
from kernelwright.evaluator.evidence.subject import KINDS, Kind, Selection, Subject, subjects
from kernelwright.metal.device.registry import open_device

TIMED = 20
"""Programs that are timed against their predictions."""
_SECRET = "evidence"
_NO_GPU = "Apple's compiler and GPU: {why}"
_NO_TIMES = "times beside predictions: they need an Apple GPU"


def gather(
    *,
    limit_s: float,
    kinds: Sequence[Kind] = KINDS,
    only: Sequence[str] = (),
    timed: int = TIMED,
    tell: Callable[[int], None] = lambda count: None,
) -> Evidence:
    """Run every step that this machine can.

    Args:
        limit_s: Seconds after which no further program is begun; those left stay out.
        kinds: Kinds of programs to judge.
        only: Names of programs, or parts of them; all when empty.
        timed: How many programs to time where there is a GPU.
        tell: Called with the number of programs judged so far.
    """
    deadline = time.monotonic() + limit_s
    gpu, why = _apple_gpu()
    devices = ("simulator", "metal") if gpu else ("simulator",)
    selection = Selection(kinds=tuple(kinds), only=tuple(only), schedules=1)
    groups = subjects(selection)
    verdicts = _compare(groups, devices, Stage.DETERMINISM, deadline, tell)
    timings, not_run = None, [] if gpu else [_NO_GPU.format(why=why), _NO_TIMES]
    if gpu and timed:
        spread = _templates(only, timed)
        timings = _compare(spread, ("metal",), Stage.TIMING, deadline, tell)
    return Evidence(
        machine=Machine.here(gpu), verdicts=verdicts, timings=timings, not_run=tuple(not_run)
    )


def _apple_gpu() -> tuple[str, str]:
    """Return the chip of the Apple GPU, or why there is none."""
    try:
        return open_device("metal").info.chip, ""
    except DeviceError as e:
        return "", str(e).rstrip(".")


def _templates(only: Sequence[str], count: int) -> list[list[Subject]]:
    """Return programs of the catalog at their own shapes, spread over its tasks."""
    chosen = Selection(kinds=("template",), only=tuple(only), schedules=1, is_small=False)
    every = [group[0] for group in subjects(chosen)]
    step = max(len(every) // count, 1)
    return [[subject] for subject in every[::step][:count]]


def _compare(
    groups: Sequence[Sequence[Subject]],
    devices: tuple[str, ...],
    through: Stage,
    deadline: float,
    tell: Callable[[int], None],
) -> Comparison:
    started = time.monotonic()
    config = EvaluatorConfig(secret=_SECRET, through=through, run_timeout_s=10)
    # Two programs on one GPU at once would time each other.
    jobs = 1 if through is Stage.TIMING else max(1, (os.cpu_count() or 2) - 1)
    rows: list[Row] = []
    for row in judge(groups, devices, config, jobs=jobs, limit_s=deadline - started, known={}):
        rows.append(row)
        tell(len(rows))
    return Comparison(
        devices=devices,
        through=through.value,
        subjects=sum(map(len, groups)),
        seconds=time.monotonic() - started,
        rows=tuple(rows),
    )
