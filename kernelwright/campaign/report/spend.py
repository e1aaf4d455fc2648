"""What a campaign's models were paid: for which task, and by when."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kernelwright.metal.diagnostic import Record
from kernelwright.store import Campaign, KernelStore, TaskSummary

_MICRO = 1_000_000


class Payment(Record):
    """One reply that was paid."""

    at: datetime
    dollars: float


class Spending(Record):
    """What one model took for one task."""

    task: str
    model: str
    calls: int
    tokens: int
    dollars: float


def payments(store: KernelStore, runs: Sequence[Campaign]) -> tuple[Payment, ...]:
    """Return what was paid when, over the runs of a campaign."""
    return tuple(
        Payment(
            at=recorded.at + timedelta(seconds=recorded.outcome.latency_s),
            dollars=recorded.outcome.cost_microdollars / _MICRO,
        )
        for run in runs
        for recorded in store.dialogue.calls(run.id)
        if recorded.outcome is not None and recorded.at is not None
    )


def spending(
    store: KernelStore, runs: Sequence[Campaign], tasks: Mapping[str, TaskSummary]
) -> tuple[Spending, ...]:
    """Add up calls, tokens and dollars by task and model."""
    spent: dict[tuple[str, str], Spending] = {}
    for run in runs:
        for recorded in store.dialogue.calls(run.id):
            call, outcome = recorded.call, recorded.outcome
            known = tasks.get(call.task_id or "")
            key = (known.name if known else "planning", f"{call.provider}:{call.model}")
            old = spent.get(key, Spending(task=key[0], model=key[1], calls=0, tokens=0, dollars=0))
            tokens = outcome.input_tokens + outcome.output_tokens if outcome else 0
            dollars = outcome.cost_microdollars / _MICRO if outcome else 0.0
            spent[key] = Spending(
                task=key[0],
                model=key[1],
                calls=old.calls + 1,
                tokens=old.tokens + tokens,
                dollars=old.dollars + dollars,
            )
    return tuple(sorted(spent.values(), key=lambda s: (s.task, s.model)))
