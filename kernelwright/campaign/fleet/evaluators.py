"""Which evaluators a search runs on: those of this machine, or those of a fleet."""

from kernelwright.campaign.execution.executor import ExecutorFactory
from kernelwright.campaign.execution.judge import MakeJudge, judges_on
from kernelwright.campaign.fleet.fleet_executors import FleetExecutors
from kernelwright.errors import InputError
from kernelwright.search.spec import SearchSpec
from kernelwright.store import KernelStore


def evaluators_for(
    spec: SearchSpec, store: KernelStore, *, fleet: bool
) -> MakeJudge | ExecutorFactory:
    """Return what evaluates for a search with these settings.

    Raises:
        InputError: the search is for a chip of a fleet, and none is used.
    """
    if fleet:
        return FleetExecutors(
            store, spec.device, chip=spec.chip or None, threadgroup_bytes=spec.threadgroup_bytes
        )
    if spec.chip:
        raise InputError(
            f"the campaign names the chip {spec.chip!r}, which a fleet's workers have; give "
            "--fleet too, or leave [campaign] chips out."
        )
    return judges_on(spec.device, store, jobs=spec.jobs, threadgroup_bytes=spec.threadgroup_bytes)
