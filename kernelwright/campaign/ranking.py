"""By what correct candidates are ordered: measured time, else predicted time, else traffic."""

import statistics

from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.store import Rank


def rank_of(evaluation: Evaluation) -> Rank | None:
    """Return what to order a candidate by; None when it may never be a champion.

    A device that measures time crowns only what beat its baseline and was confirmed. One
    that does not is never asked how long something took.
    """
    if evaluation.device.measures_time:
        return _measured(evaluation) if evaluation.status is Status.PROMOTED else None
    if not evaluation.is_correct:
        return None
    if evaluation.predicted_us is not None:
        return Rank(kind="predicted", value=evaluation.predicted_us)
    return Rank(kind="traffic", value=float(bytes_moved(evaluation)))


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
