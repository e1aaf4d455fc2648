"""The stage that counts on the simulator what a program does, and predicts its time from that."""

from collections.abc import Sequence

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.speed.least_counts import undercount
from kernelwright.evaluator.speed.predicted_time import PredictedTime
from kernelwright.evaluator.speed.prediction import predict_program
from kernelwright.evaluator.speed.race_runner import profile_of
from kernelwright.evaluator.stages.correctness import judge_build
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import ChipProfile, find_profile

_BEYOND_THE_SIMULATOR = (Status.TIMEOUT, Status.OUT_OF_MEMORY, Status.CRASHED)
_MOST_KINDS = 6
_FIRST_KINDS = (
    *(Distribution.NORMAL, Distribution.MIXED, Distribution.MASKED),
    *(Distribution.SPECIAL, Distribution.TIED, Distribution.WIDE),
)
"""What is counted before other kinds; the first that there is has to move what is needed."""
_EXACT_ELEMENTS = 1 << 18
"""Up to so many all threadgroups are counted, above it a sample."""
_FIRST_EXACT_ELEMENTS = 1 << 22
"""The same for the first case: one threadgroup of thousands may have most of the work."""


class Counting(PipelineStage):
    """Counts at the task's own shape, on several kinds of data; the slowest decides.

    What is counted is judged like every other run, and must do what every right program does.
    """

    name = Stage.COUNT
    needs = frozenset({"program", "simulated", "suite"})

    def run(self, context: Context) -> str:
        """Keep counters and prediction; a GPU can time also what the simulator is too slow for."""
        try:
            return _count(context)
        except Failure as failure:
            if context.info.measures_time and failure.status in _BEYOND_THE_SIMULATOR:
                return f"not counted: {failure.summary}"
            raise


def _count(context: Context) -> str:
    profile, verdict = chip_profile(context), context.verdict
    times: dict[str, PredictedTime] = {}
    slowest = 0.0
    for reference in _chosen(context.suite):
        most = _EXACT_ELEMENTS if times else _FIRST_EXACT_ELEMENTS
        counters = count_case(context.simulated, reference, most)
        if not counters:
            return "this device does not count"
        if not times:
            counters = _plausible(context, reference, counters)
        time = times[reference.case.distribution.value] = predict_program(counters, profile)
        if time.microseconds > slowest:
            slowest = time.microseconds
            verdict.counters = counters
            verdict.predicted_us, verdict.bound = time.microseconds, time.bound
    return _words(times)


def count_case(
    trial: Trial, reference: Reference, exact_elements: int = _EXACT_ELEMENTS
) -> tuple[Counters, ...]:
    """Count what a program does on a case, and judge what it gives there; none is no count."""
    is_small = reference.case.graph.element_count <= exact_elements
    result = trial.run(reference, count=True, counts_all=is_small)
    judge_build(result, reference, "while it is counted")
    return result.counters


def _plausible(
    context: Context, reference: Reference, counters: tuple[Counters, ...]
) -> tuple[Counters, ...]:
    """Return the counters if they are possible, counted in full where a sample is in doubt."""
    if not _problem(context, reference, counters):
        return counters
    counters = context.simulated.run(reference, count=True, counts_all=True).counters
    if problem := _problem(context, reference, counters):
        raise Failure(Status.IMPLAUSIBLE, f"{problem}.", reference=reference)
    return counters


def _problem(context: Context, reference: Reference, counters: Sequence[Counters]) -> str:
    unseen = context.suite.unseen_inputs
    return undercount(counters, context.program, reference.case.graph, unseen)


def _chosen(suite: Suite) -> Sequence[Reference]:
    """Return cases of different kinds at the task's own shape."""
    own = suite.references[0].case.graph
    kinds: dict[Distribution, Reference] = {}
    for reference in suite.references:
        if reference.case.graph is own and reference.case.layout is Layout.DENSE:
            kinds.setdefault(reference.case.distribution, reference)
    first = [kinds.pop(kind) for kind in _FIRST_KINDS if kind in kinds]
    return [*first, *kinds.values()][:_MOST_KINDS] or suite.references[:1]


def _words(times: dict[str, PredictedTime]) -> str:
    slowest = max(times, key=lambda kind: times[kind].microseconds)
    words = f"{len(times)} kinds of data, the slowest {slowest}"
    quickest_us = min(time.microseconds for time in times.values())
    ratio = times[slowest].microseconds / quickest_us
    return f"{words} at {ratio:.3g} times the quickest" if len(times) > 1 else words


def chip_profile(context: Context) -> ChipProfile:
    """Return the profile of the chip itself where it is known, else of the one in the config."""
    measured = profile_of(context.info.bare_chip) if context.info.measures_time else None
    return measured or find_profile(context.config.chip_for(context.info))
