"""Whom a red team attacks: champions of a store, or what the templates make of a function."""

from collections.abc import Iterable, Iterator

from kernelwright.agents.offline import OfflineCoder
from kernelwright.campaign.planning.capturing import Captured
from kernelwright.campaign.redteam.record import Target
from kernelwright.evaluator.task import Task
from kernelwright.ir.region import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plan.partition import partition
from kernelwright.store import KernelStore

_MOST_CHAMPIONS = 1000
_SHOWN = 8


def targets_from_store(store: KernelStore, *, limit: int = _MOST_CHAMPIONS) -> list[Target]:
    """Return the champions of a store, newest first, one of each program."""
    found: dict[str, Target] = {}
    for champion in store.best(limit=limit):
        detail = store.show(champion.candidate_id)
        origin = f"champion {champion.candidate_id[:_SHOWN]}"
        target = Target(detail.reference, detail.program, origin, champion.idea)
        found.setdefault(detail.program.id, target)
    return list(found.values())


def targets_of(captured: Captured, device: DeviceInfo) -> list[Target]:
    """Return what the templates make of each part of each function."""
    tasks = {
        task.fingerprint: task
        for function in captured.functions
        for task in _tasks(function.subject.name, partition(function.graph))
    }
    return list(_written(tasks.values(), device))


def _tasks(name: str, regions: Iterable[Region]) -> Iterator[Task]:
    for region in regions:
        yield Task(region.extract(), name)


def _written(tasks: Iterable[Task], device: DeviceInfo) -> Iterator[Target]:
    coder = OfflineCoder()
    for task in tasks:
        for proposal in coder.write(task, device, (), count=1):
            yield Target(task, proposal.program, "template", proposal.idea)
