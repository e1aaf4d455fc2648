"""By what correct candidates are ordered: measured time, else predicted time, else traffic."""

import statistics

from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.store import Rank


def rank_of(evaluation: Evaluation) -> Rank | None:
    """Return what to order a candidate by; None when it is not correct.

    A device that measures no time is never asked how long something took.
    """
    if not evaluation.is_correct:
        return None
    if evaluation.device.measures_time and (rank := _measured(evaluation)):
        return rank
    if evaluation.predicted_us is not None:
        return Rank(kind="predicted", value=evaluation.predicted_us)
    return Rank(kind="traffic", value=float(bytes_moved(evaluation)))


def is_confirmed(evaluation: Evaluation) -> bool:
    """Say whether a candidate may be a champion: it passed the hidden gate and a fresh process.

    Where time is measured, it also has to have beaten its baseline.
    """
    if evaluation.device.measures_time and evaluation.status is not Status.PROMOTED:
        return False
    passed = {result.stage for result in evaluation.stages if result.passed}
    return evaluation.is_correct and Stage.CONFIRMATION in passed


def is_final(evaluation: Evaluation) -> bool:
    """Say whether a verdict would be the same tomorrow; a crash or a timeout may be the day's."""
    return evaluation.status not in (Status.TIMEOUT, Status.CRASHED, Status.OUT_OF_MEMORY)


def bytes_moved(evaluation: Evaluation) -> int:
    """Sum what every launch read from and wrote to device memory, as the program asked for it."""
    return sum(
        buffer.bytes_read + buffer.bytes_written
        for counters in evaluation.counters
        for buffer in counters.buffers
    )


def unique_bytes_moved(evaluation: Evaluation) -> int:
    """Sum the distinct bytes that every launch read and wrote: its traffic with a perfect cache."""
    return sum(
        buffer.unique_bytes_read + buffer.unique_bytes_written
        for counters in evaluation.counters
        for buffer in counters.buffers
    )


def _measured(evaluation: Evaluation) -> Rank | None:
    for samples in evaluation.samples:
        if samples.arm == "candidate" and samples.nanoseconds:
            return Rank(kind="measured", value=statistics.median(samples.nanoseconds) / 1000)
    return None
