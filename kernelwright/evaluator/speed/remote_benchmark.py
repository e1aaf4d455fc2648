"""The laboratory in a candidate's worker, as the evaluator's own process sees it."""

import time
from dataclasses import dataclass
from typing import cast

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.speed.measuring import Measure, MeasureBandwidth, SetUp, measurements_of
from kernelwright.evaluator.speed.timing import Measurements, Order
from kernelwright.evaluator.speed.timing_cases import TimingCases
from kernelwright.evaluator.stages.trial import Failure, Trial

_PAUSES_S = (2.0, 10.0)
"""Waits before a restless machine is asked again."""


@dataclass(frozen=True)
class RemoteLaboratory:
    """Sends orders to the worker of a trial; hangs and crashes are the candidate's `Failure`."""

    trial: Trial
    bytes_per_s: float

    def measure(self, order: Order) -> Measurements:
        """Carry out an order, again after a pause where the machine is too restless.

        Raises:
            DeviceError: the machine stays too restless to measure.
        """
        for pause_s in _PAUSES_S:
            try:
                return self._measure(order)
            except DeviceError:
                time.sleep(pause_s)
        return self._measure(order)

    def _measure(self, order: Order) -> Measurements:
        reply = self.trial.call(Measure(order), self.trial.config.measure_timeout_s)
        try:
            return measurements_of(reply)
        except (KeyError, TypeError, ValueError) as e:
            summary = f"the worker's timings are damaged ({e})."
            raise Failure(Status.CRASHED, summary, lost_worker=True) from e


def open_laboratory(
    trial: Trial, cases: TimingCases, plan: TimingPlan, seed: int
) -> RemoteLaboratory | str:
    """Set up a laboratory in the trial's worker; return why there is nothing to compare with."""
    key = trial.compile(cases.graph)
    config = trial.config
    request = SetUp(key, cases.graph, cases.inputs, plan, seed)
    reply = trial.call(request, config.measure_timeout_s)
    if problem := reply.header.get("problem"):
        return str(problem)
    reply = trial.call(MeasureBandwidth(), config.measure_timeout_s)
    return RemoteLaboratory(trial, float(cast("float", reply.header["bytes_per_s"])))
