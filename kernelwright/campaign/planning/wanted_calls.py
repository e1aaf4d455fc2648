"""What programs asked for in vain, taken up by a night: the wanted list as its functions."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from kernelwright import ir
from kernelwright.campaign.planning.capturing import Captured, CapturedFunction, capture_subjects
from kernelwright.campaign.spec.campaign_file import load_functions
from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.campaign.spec.search_target import Subject
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.registry import open_device
from kernelwright.plan import partition
from kernelwright.store import KernelStore, Wanted

_ALL = 1_000_000


def resolve_wanted(spec: CampaignSpec, store: KernelStore) -> CampaignSpec:
    """Name the wanted calls among the night's functions, so that a resumed night has the same.

    Those whose every part has a fresh champion on the night's devices are left out.

    Raises:
        InputError: the night has no other functions, and nothing is wanted.
    """
    if spec.wanted is None:
        return spec
    unserved = (w for w in store.wanted(limit=_ALL) if not _is_served(w, spec, store))
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


def capture_campaign(
    spec: CampaignSpec, store: KernelStore | None
) -> dict[CampaignFunction, Captured]:
    """Capture every function of a night; wanted calls were captured when they were made.

    Raises:
        InputError: a function or a wanted call is not there; says which.
        UnsupportedError: a function cannot be captured, and it is the only one.
    """
    subjects = load_functions(spec)
    wishes = {f: _recalled(f, store) for f in spec.functions if f.target.startswith(WANTED)}
    everything = capture_subjects(s for found in subjects.values() for s in found)
    captured = {f: _only(everything, found) for f, found in subjects.items()}
    return {f: wishes.get(f) or captured[f] for f in spec.functions}


def joined(parts: Sequence[Captured]) -> Captured:
    """Return the functions of all parts as one."""
    return Captured(
        functions=tuple(function for part in parts for function in part.functions),
        refused=tuple(refusal for part in parts for refusal in part.refused),
    )


def _only(everything: Captured, subjects: Sequence[Subject]) -> Captured:
    names = {subject.name for subject in subjects}
    return Captured(
        functions=tuple(f for f in everything.functions if any(f.subject is s for s in subjects)),
        refused=tuple(r for r in everything.refused if r.function in names),
    )


def _recalled(function: CampaignFunction, store: KernelStore | None) -> Captured:
    """Find a wanted call in the store."""
    fingerprint = function.target.removeprefix(WANTED)
    listed = store.wanted(limit=_ALL) if store else ()
    found = next((w for w in listed if w.fingerprint.startswith(fingerprint)), None)
    if found is None:
        where = store.label if store else "a store that is not there yet"
        raise InputError(
            f"the wanted list of {where} has no call {fingerprint!r}; "
            "see: kernelwright store wanted"
        )
    graph = ir.gather_attention(Graph.from_json(found.graph_json))
    name = found.function.rpartition(".")[2]
    subject = Subject(name, partial(ir.interpret, graph), (), {}, function.target[:15])
    return Captured((CapturedFunction(subject, graph),))


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

    return tuple(islice(filter(is_open, store.wanted(limit=_ALL)), limit))


def _tasks(wanted: Wanted) -> set[str]:
    graph = ir.gather_attention(Graph.from_json(wanted.graph_json))
    return {region.extract().fingerprint for region in partition(graph)}


def _is_served(wanted: Wanted, spec: CampaignSpec, store: KernelStore) -> bool:
    tasks = _tasks(wanted)
    if not tasks:
        # No part of it can be a kernel: nothing a night could do.
        return True
    return all(served >= tasks for served in _served(tasks, spec, store))


def _served(tasks: set[str], spec: CampaignSpec, store: KernelStore) -> Iterator[set[str]]:
    """Yield what each device of the night has fresh champions for."""
    for name in spec.devices:
        try:
            chip = open_device(name, spec.threadgroup_bytes).info.chip
        except KernelwrightError:
            yield set()
        else:
            # Where MLX is best, another night would find the same.
            yield set(store.served(tasks, device=name, chip=chip))
