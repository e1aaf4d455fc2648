"""The stage that counts on the simulator what a program does, and predicts its time from that."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.counted import COMMON_DRAW, of_each_kind
from kernelwright.evaluator.inputs.distribution import Distribution
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
_EXACT_ELEMENTS = 1 << 18
"""Up to so many all threadgroups are counted, above it a sample."""
_FIRST_EXACT_ELEMENTS = 1 << 22
"""The same for the first case: one threadgroup of thousands may have most of the work."""
_ALIKE = 1.1
"""Times what the common draw takes, up to which a secret one takes as long."""


class Counting(PipelineStage):
    """Counts at the task's own shape, on several kinds of data; the slowest decides.

    They are drawn alike in every search, so that a program has one time. A secret draw is counted
    beside them: it decides where it takes longer, for then a program knows the common one.

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


@dataclass
class _Slowest:
    """What was counted on the slowest kind of data of one draw."""

    counters: tuple[Counters, ...] = ()
    times: dict[Distribution, PredictedTime] = field(default_factory=dict)

    def add(
        self, reference: Reference, counters: tuple[Counters, ...], profile: ChipProfile
    ) -> None:
        """Take what was counted on a case, one of each kind."""
        time = predict_program(counters, profile)
        if time.microseconds > self.slowest_us:
            self.counters = counters
        self.times[reference.case.distribution] = time

    @property
    def slowest_us(self) -> float:
        """How long the slowest kind takes."""
        return max((time.microseconds for time in self.times.values()), default=0.0)

    def takes_longer(self, common: "_Slowest") -> bool:
        """Say whether a kind takes longer than it does in the common draw."""
        return any(
            time.microseconds
            > _ALIKE
            * (common.times[kind].microseconds if kind in common.times else common.slowest_us)
            for kind, time in self.times.items()
        )


def _count(context: Context) -> str:
    profile, verdict = chip_profile(context), context.verdict
    own = context.suite.references[0].case.graph
    secrets = of_each_kind(context.suite.references, lambda r: r.case, own)
    secret, common = _Slowest(), _Slowest()
    known = {
        r.case.distribution: r
        for r in context.cases.common(context.task, context.submitted).references
    }
    for reference in secrets or context.suite.references[:1]:
        if secret.times and reference.case.distribution in known:
            continue
        most = _EXACT_ELEMENTS if secret.times else _FIRST_EXACT_ELEMENTS
        counters = count_case(context.simulated, reference, most)
        if not counters:
            return "this device does not count"
        if not secret.times:
            counters = _plausible(context, reference, counters)
        secret.add(reference, counters, profile)
    for reference in known.values():
        most = _EXACT_ELEMENTS if common.times else _FIRST_EXACT_ELEMENTS
        counters = count_case(context.simulated, reference, most, sampled_by=COMMON_DRAW)
        common.add(reference, counters, profile)
    found = secret if secret.takes_longer(common) else common
    verdict.counters = found.counters
    time = predict_program(found.counters, profile)
    verdict.predicted_us, verdict.bound = time.microseconds, time.bound
    return _words(found.times)


def count_case(
    trial: Trial,
    reference: Reference,
    exact_elements: int = _EXACT_ELEMENTS,
    sampled_by: str = "",
) -> tuple[Counters, ...]:
    """Count what a program does on a case, and judge what it gives there; none is no count.

    Of many threadgroups those are counted that `sampled_by` draws, the secret if it is empty.
    """
    is_small = reference.case.graph.element_count <= exact_elements
    result = trial.run(reference, count=True, counts_all=is_small, sampled_by=sampled_by)
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


def _words(times: dict[Distribution, PredictedTime]) -> str:
    slowest = max(times, key=lambda kind: times[kind].microseconds)
    words = f"{len(times)} kinds of data, the slowest {slowest.value}"
    quickest_us = min(time.microseconds for time in times.values())
    ratio = times[slowest].microseconds / quickest_us
    return f"{words} at {ratio:.3g} times the quickest" if len(times) > 1 else words


def chip_profile(context: Context) -> ChipProfile:
    """Return the profile of the chip itself where it is known, else of the one in the config."""
    measured = profile_of(context.info.bare_chip) if context.info.measures_time else None
    return measured or find_profile(context.config.chip_for(context.info))
