"""The inputs that functions were searched for: nobody has to type them twice."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kernelwright.campaign.event import FunctionPlanned
from kernelwright.campaign.spec.search_target import Recall
from kernelwright.errors import KernelwrightError

if TYPE_CHECKING:
    from kernelwright.store import KernelStore


def recall_from(url: str | None) -> Recall:
    """Return what recalls a function's inputs from a store; none where there is no store yet."""

    def recall(origin: str) -> tuple[tuple[str, ...], ...]:
        # A command that is told the inputs does without the store, whose import takes 0.4 s.
        from kernelwright.store import KernelStore, has_store

        if not has_store(url):
            return ()
        with KernelStore(url, must_exist=True) as opened:
            return searched_as(opened, origin)

    return recall


def planned_in(store: "KernelStore", prefix: str) -> Iterator[FunctionPlanned]:
    """Yield the functions of a campaign.

    Raises:
        InputError: no campaign, or several, begin like this.
    """
    for event in store.events(store.campaign(prefix).id):
        if event.kind == FunctionPlanned.__name__:
            yield event.read(FunctionPlanned)


def searched_as(store: "KernelStore", origin: str) -> tuple[tuple[str, ...], ...]:
    """Return the inputs that a function was searched for, as they are typed, the latest first."""
    found: dict[tuple[str, ...], None] = {}
    for campaign in store.campaigns(limit=200):
        with suppress(KernelwrightError):
            planned = [p for p in planned_in(store, campaign.id) if p.place == origin]
            found |= {p.written: None for p in planned if p.written}
    return tuple(found)


def types_of(inputs: str) -> tuple[str, ...]:
    """Return the types of a call of arrays, of which the store keeps one text."""
    return tuple(f"{text.strip(', ')}]" for text in inputs.split("]")[:-1])
