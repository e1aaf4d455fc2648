"""The stage that counts on the simulator what a program does, and predicts its time from that."""

from collections.abc import Sequence

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.speed.prediction import PredictedTime, predict_program
from kernelwright.evaluator.speed.race_runner import profile_of
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import ChipProfile, find_profile

_BEYOND_THE_SIMULATOR = (Status.TIMEOUT, Status.OUT_OF_MEMORY, Status.CRASHED)


class Counting(PipelineStage):
    """Counts at the task's own shape; where time is measured, so that predictions can be judged."""

    name = Stage.COUNT
    needs = frozenset({"simulated", "suite"})

    def run(self, context: Context) -> str:
        """Keep counters and prediction; a GPU can time also what the simulator is too slow for."""
        try:
            counters = context.simulated.run(context.suite.references[0], count=True).counters
        except Failure as failure:
            if context.info.measures_time and failure.status in _BEYOND_THE_SIMULATOR:
                return f"not counted: {failure.summary}"
            raise
        if not counters:
            return "this device does not count"
        keep_prediction(context, counters)
        return ""


def keep_prediction(context: Context, counters: Sequence[Counters]) -> PredictedTime:
    """Note in the verdict what was counted and which time follows from it."""
    prediction = predict_program(counters, chip_profile(context))
    context.verdict.counters = tuple(counters)
    context.verdict.predicted_us, context.verdict.bound = prediction.microseconds, prediction.bound
    return prediction


def chip_profile(context: Context) -> ChipProfile:
    """Return the profile of the chip itself where it is known, else of the one in the config."""
    measured = profile_of(context.info.bare_chip) if context.info.measures_time else None
    return measured or find_profile(context.config.chip_for(context.info))
