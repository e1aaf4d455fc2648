"""Which evaluators a search runs on: those of this machine, or those of a fleet."""

from kernelwright.campaign.execution.executor import ExecutorFactory
from kernelwright.campaign.execution.judge import MakeJudge, judges_on
from kernelwright.campaign.fleet.fleet_executors import FleetExecutors
from kernelwright.errors import InputError
from kernelwright.evaluator import EvaluatorConfig
from kernelwright.metal.perf import find_profile
from kernelwright.search.spec import SearchSpec
from kernelwright.store import KernelStore


def evaluators_for(
    spec: SearchSpec, store: KernelStore, *, fleet: bool
) -> MakeJudge | ExecutorFactory:
    """Return what evaluates for a search with these settings.

    Raises:
        InputError: the search is for a chip of a fleet, and none is used. The simulator stands for
            any chip that is known.
    """
    if fleet:
        return FleetExecutors(
            store, spec.device, chip=spec.chip or None, threadgroup_bytes=spec.threadgroup_bytes
        )
    if spec.chip and spec.device != "simulator":
        raise InputError(
            f"the campaign names the chip {spec.chip!r}, which a fleet's workers have; give "
            "--fleet too, or leave [campaign] chips out."
        )
    return judges_on(
        spec.device,
        store,
        jobs=spec.jobs,
        threadgroup_bytes=spec.threadgroup_bytes,
        stands_for=stood_for(spec.chip),
    )


def stood_for(chip: str) -> str:
    """Return the chip that the simulator is to stand for; none where that is nothing special.

    Raises:
        InputError: the chip is not known.
    """
    own: str = EvaluatorConfig.model_fields["chip"].default
    name = find_profile(chip).name if chip else own
    return "" if name == own else name
