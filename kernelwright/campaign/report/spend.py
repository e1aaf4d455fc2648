"""What a campaign's models were paid: for which task, and by when."""

from collections.abc import Mapping, Sequence

from kernelwright.metal.diagnostic import Record
from kernelwright.store import KernelStore, TaskSummary
from kernelwright.store.browsing import ModelPayment

_MICRO = 1_000_000


class Spending(Record):
    """What one model took for one task."""

    task: str
    model: str
    calls: int
    tokens: int
    dollars: float


def payments(store: KernelStore, run_ids: Sequence[str]) -> tuple[ModelPayment, ...]:
    """Return what was paid when, over the runs of a campaign, in that order."""
    return store.browse.payments(run_ids)


def spending(
    store: KernelStore, run_ids: Sequence[str], tasks: Mapping[str, TaskSummary]
) -> tuple[Spending, ...]:
    """Add up calls, tokens and dollars by task and model."""
    spent: dict[tuple[str, str], Spending] = {}
    for one in store.browse.spending(run_ids):
        known = tasks.get(one.task_id or "")
        key = (known.name if known else "planning", one.model)
        old = spent.get(key, Spending(task=key[0], model=key[1], calls=0, tokens=0, dollars=0))
        spent[key] = Spending(
            task=key[0],
            model=key[1],
            calls=old.calls + one.calls,
            tokens=old.tokens + one.tokens,
            dollars=old.dollars + one.microdollars / _MICRO,
        )
    return tuple(sorted(spent.values(), key=lambda s: (s.task, s.model)))
