"""The champions that a plan or a search finds in the store already, and what they gain."""

from collections.abc import Collection

from kernelwright.campaign.planning.plan_summary import KnownGains
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip
from kernelwright.evaluator.predicted_gain import predicted_gain
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.task_search import Champion as Leader
from kernelwright.store import KernelStore


def known_gains(
    store: KernelStore, task_ids: Collection[str], device: DeviceInfo, chip: str | None = None
) -> KnownGains:
    """Return what a device's champions of some tasks gain; stale and revoked ones are left out.

    Raises:
        InputError: the chip is not known.
    """
    found = store.champions(list(task_ids), device=device.name, chip=device.chip)
    fresh = [c for c in found if c.freshness == "fresh"]
    verdicts = store.verdicts([c.evaluation_id for c in fresh])
    gains: dict[str, Gain] = {}
    predicted: dict[str, Gain] = {}
    for champion in fresh:
        verdict = verdicts[champion.evaluation_id]
        evaluation, graph = verdict.evaluation, verdict.graph
        gain = gains[champion.task.id] = gain_of(evaluation, graph, chip)
        for_chip = chip or predicted_chip(evaluation.device)
        predicted[champion.task.id] = predicted_gain(evaluation, graph, for_chip) or gain
    return KnownGains(gains, predicted)


def leaders(store: KernelStore, task_ids: Collection[str], device: DeviceInfo) -> dict[str, Leader]:
    """Return a device's fresh champions of some tasks, by the tasks' ids."""
    found = store.champions(list(task_ids), device=device.name, chip=device.chip)
    fresh = [c for c in found if c.freshness == "fresh"]
    verdicts = store.verdicts([c.evaluation_id for c in fresh])
    return {
        c.task.id: Leader(
            store.show(c.candidate_id).candidate.program_id,
            verdicts[c.evaluation_id].evaluation,
            c.rank,
        )
        for c in fresh
    }
