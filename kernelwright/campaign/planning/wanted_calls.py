"""The functions of a night, captured: those of its file, and the wanted calls of the store."""

from collections.abc import Sequence
from functools import partial

from kernelwright import ir
from kernelwright.campaign.planning.capturing import Captured, CapturedFunction, capture_subjects
from kernelwright.campaign.planning.unserved_calls import ALL_CALLS
from kernelwright.campaign.spec.campaign_functions import load_functions
from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.campaign.spec.subject import Subject
from kernelwright.errors import InputError
from kernelwright.store import KernelStore
from kernelwright.validation import shown


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
    listed = store.wanted(limit=ALL_CALLS) if store else ()
    found = next((w for w in listed if w.fingerprint.startswith(fingerprint)), None)
    if found is None:
        where = store.label if store else "a store that is not there yet"
        raise InputError(
            f"the wanted list of {where} has no call {shown(fingerprint)}; "
            "see: kernelwright store wanted"
        )
    graph = ir.gather_attention(ir.read_graph(found.graph_json))
    name = found.function.rpartition(".")[2]
    subject = Subject(name, partial(ir.interpret, graph), (), {}, function.target[:15])
    return Captured((CapturedFunction(subject, graph),))
