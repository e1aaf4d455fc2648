"""Puts groups of subjects before devices, several processes at once."""

import atexit
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evidence.result import Finding, Row
from kernelwright.evaluator.evidence.subject import Subject

NO_VERDICT = "no verdict"
_evaluators: dict[str, Evaluator] = {}
"""Of this process: one for each device, kept warm between groups."""


def judge(
    groups: Sequence[Sequence[Subject]],
    devices: Sequence[str],
    config: EvaluatorConfig,
    *,
    jobs: int,
    limit_s: float,
    known: Mapping[str, Finding],
) -> Iterator[Row]:
    """Yield a row for each subject; what `limit_s` leaves no time for stays out.

    `known` are the simulator's verdicts by name, where it need not run again.
    """
    deadline = time.monotonic() + limit_s
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting: set[Future[list[Row]]] = {
            pool.submit(_judge_group, group, devices, config, known) for group in groups
        }
        try:
            while waiting and time.monotonic() < deadline:
                done, waiting = wait(waiting, deadline - time.monotonic(), FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        finally:
            # Also when somebody interrupts: the pool waits for all that it still holds.
            for future in waiting:
                future.cancel()


def _judge_group(
    group: Sequence[Subject],
    devices: Sequence[str],
    config: EvaluatorConfig,
    known: Mapping[str, Finding],
) -> list[Row]:
    return [
        Row(
            name=subject.name,
            kind=subject.kind,
            expect=tuple(s.value for s in subject.expect),
            takes_strides=not all(k.ensure_row_contiguous for k in subject.program.kernels),
            findings={
                device: known[subject.name]
                if device == "simulator" and subject.name in known
                else _judge(subject, device, config)
                for device in devices
            },
        )
        for subject in group
    ]


def _judge(subject: Subject, device: str, config: EvaluatorConfig) -> Finding:
    if device not in _evaluators:
        _evaluators[device] = Evaluator(device, config)
        atexit.register(_evaluators[device].close)
    try:
        found = _evaluators[device].evaluate(subject.task, subject.program)
    except DeviceError as e:
        return Finding(status=NO_VERDICT, summary=str(e))
    return Finding(
        status=found.status.value,
        summary=found.summary,
        measured_us=found.measured_us,
        predicted_us=found.predicted_us,
        speedups={s.baseline: s.ratio for s in found.speedups},
        duration_s=round(found.duration_s, 3),
    )
