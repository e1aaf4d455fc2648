"""What a campaign's models were paid: for which task, and by when."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kernelwright.campaign.history.ledger import tokens_at_most
from kernelwright.campaign.report.wording import in_money, in_tokens
from kernelwright.metal.diagnostic import Record
from kernelwright.store import KernelStore, TaskSummary
from kernelwright.store.browsing import ModelPayment


class Spending(Record):
    """What one model took for one task."""

    task: str
    model: str
    calls: int
    tokens: int
    """At most, as caps count: a call whose reply never came whole may cost its worst case."""
    dollars: float
    """At most, too."""
    known_tokens: int = 0
    known_dollars: float = 0.0

    @property
    def paid(self) -> str:
        """The dollars as people read them."""
        return in_money(self.known_dollars, self.dollars)

    @property
    def read_and_written(self) -> str:
        """The tokens as people read them."""
        return in_tokens(self.known_tokens, self.tokens).rstrip(",")


def payments(store: KernelStore, run_ids: Sequence[str]) -> tuple[ModelPayment, ...]:
    """Return what was paid when, over the runs of a campaign, in that order."""
    return store.browse.payments(run_ids)


def spending(
    store: KernelStore, run_ids: Sequence[str], tasks: Mapping[str, TaskSummary]
) -> tuple[Spending, ...]:
    """Add up calls, tokens and dollars by task and model."""
    spent: dict[tuple[str, str], Spending] = {}
    lost = Counter[tuple[str | None, str]]()
    for recorded in store.browse.calls_without_reply(run_ids):
        call = recorded.call
        lost[call.task_id, f"{call.provider}:{call.model}"] += tokens_at_most(recorded)
    for one in store.browse.spending(run_ids):
        known = tasks.get(one.task_id or "")
        key = (known.name if known else "planning", one.model)
        old = spent.get(key, Spending(task=key[0], model=key[1], calls=0, tokens=0, dollars=0))
        spent[key] = Spending(
            task=key[0],
            model=key[1],
            calls=old.calls + one.spend.calls,
            tokens=old.tokens + one.spend.tokens + lost[one.task_id, one.model],
            dollars=old.dollars + one.spend.dollars,
            known_tokens=old.known_tokens + one.spend.tokens,
            known_dollars=old.known_dollars + one.spend.known_dollars,
        )
    return tuple(sorted(spent.values(), key=lambda s: (s.task, s.model)))
