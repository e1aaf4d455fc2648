"""Which evaluators a search runs on: those of this machine, or those of a fleet."""

from kernelwright.campaign.execution.executor import ExecutorFactory
from kernelwright.campaign.execution.judge import MakeJudge, judges_on
from kernelwright.campaign.fleet.fleet_executor import FleetExecutors
from kernelwright.search.spec import SearchSpec
from kernelwright.store import KernelStore


def evaluators_for(
    spec: SearchSpec, store: KernelStore, *, fleet: bool
) -> MakeJudge | ExecutorFactory:
    """Return what evaluates for a search with these settings."""
    if fleet:
        return FleetExecutors(store, spec.device, threadgroup_bytes=spec.threadgroup_bytes)
    return judges_on(spec.device, store, threadgroup_bytes=spec.threadgroup_bytes)
