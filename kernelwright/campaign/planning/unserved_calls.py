"""What programs asked for in vain and no kernel serves yet."""

from collections.abc import Iterator
from itertools import islice

from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.store import KernelStore, Wanted

ALL_CALLS = 1_000_000
"""A limit that no list of wanted calls reaches."""


def resolve_wanted(spec: CampaignSpec, store: KernelStore) -> CampaignSpec:
    """Name the wanted calls among the night's functions, so that a resumed night has the same.

    Those whose every part has a fresh champion on the night's devices are left out.

    Raises:
        InputError: the night has no other functions, and nothing is wanted.
    """
    if spec.wanted is None:
        return spec
    unserved = (w for w in store.wanted(limit=ALL_CALLS) if not _is_served(w, spec, store))
    wished = tuple(
        CampaignFunction(target=f"{WANTED}{w.fingerprint}", priority=spec.wanted.priority)
        for w, _ in zip(unserved, range(spec.wanted.most), strict=False)
    )
    if not wished and not spec.functions:
        raise InputError(
            f"nothing is wanted in {store.label} that has no kernel yet; programs that use "
            "@kernelwright.optimize leave their wishes there, see: kernelwright store wanted"
        )
    functions = (*spec.functions, *(f for f in wished if f not in spec.functions))
    return spec.model_copy(update={"functions": functions, "wanted": None})


def still_wanted(store: KernelStore, limit: int) -> tuple[Wanted, ...]:
    """Return the wanted calls that have no kernels on any machine of the store, yet could have."""
    found: dict[tuple[str, str], set[str]] = {}
    for standing in store.standings():
        champion = standing.champion
        if champion.freshness == "fresh":
            machine = (champion.device, champion.chip)
            found.setdefault(machine, set()).add(champion.task.id)

    def is_open(call: Wanted) -> bool:
        tasks = _tasks(call)
        return bool(tasks) and not any(served >= tasks for served in found.values())

    return tuple(islice(filter(is_open, store.wanted(limit=ALL_CALLS)), limit))


def _tasks(wanted: Wanted) -> set[str]:
    # Without a wanted call, listing them needs neither graphs nor planning.
    from kernelwright import ir
    from kernelwright.plan import partition

    graph = ir.gather_attention(ir.read_graph(wanted.graph_json))
    return {region.extract().fingerprint for region in partition(graph)}


def _is_served(wanted: Wanted, spec: CampaignSpec, store: KernelStore) -> bool:
    tasks = _tasks(wanted)
    if not tasks:
        # No part of it can be a kernel: nothing a night could do.
        return True
    return all(served >= tasks for served in _served(tasks, spec, store))


def _served(tasks: set[str], spec: CampaignSpec, store: KernelStore) -> Iterator[set[str]]:
    """Yield what each device of the night has fresh champions for."""
    from kernelwright.metal.device.registry import open_device

    for name in spec.devices:
        try:
            chip = open_device(name, spec.threadgroup_bytes).info.chip
        except KernelwrightError:
            yield set()
        else:
            # Where MLX is best, another night would find the same.
            yield set(store.served(tasks, device=name, chip=chip))
