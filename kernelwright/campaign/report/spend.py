"""What a campaign's models were paid: for which task, and by when."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kernelwright.campaign.history.ledger import tokens_at_most
from kernelwright.campaign.report.wording import in_money, in_tokens, replayed_too
from kernelwright.metal.diagnostic import Record
from kernelwright.store import KernelStore, TaskSummary
from kernelwright.store.browsing import ModelPayment

_ID_DIGITS = 8


class Spending(Record):
    """What one model took for one task."""

    task: str
    shapes: str = ""
    """Tells tasks of one name apart; empty for planning."""
    model: str
    calls: int
    replayed_calls: int = 0
    tokens: int
    """At most, as caps count: a call whose reply never came whole may cost its worst case."""
    dollars: float
    """At most, too."""
    unbilled_calls: int = 0
    known_tokens: int = 0
    known_dollars: float = 0.0

    @property
    def asked(self) -> str:
        """The calls as people read them."""
        return f"{self.calls}{replayed_too(self.replayed_calls)}"

    @property
    def paid(self) -> str:
        """The dollars as people read them."""
        return in_money(self.known_dollars, self.dollars, self.unbilled_calls)

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
    """Add up calls, tokens and dollars by task and model.

    Two tasks may share a name, and none their id. What planning cost is one row a model.
    """
    spent: dict[tuple[str, str], Spending] = {}
    lost = Counter[tuple[str | None, str]]()
    for recorded in store.browse.calls_without_bill(run_ids):
        call = recorded.call
        lost[call.task_id, f"{call.provider}:{call.model}"] += tokens_at_most(recorded)
    for one in store.browse.spending(run_ids):
        known = tasks.get(one.task_id or "")
        key = (known.id if known else "", one.model)
        name, shapes = (known.name, known.shapes) if known else ("planning", "")
        old = spent.get(key, Spending(task=name, model=one.model, calls=0, tokens=0, dollars=0))
        spent[key] = Spending(
            task=name,
            shapes=shapes,
            model=one.model,
            calls=old.calls + one.spend.calls,
            replayed_calls=old.replayed_calls + one.spend.replayed_calls,
            tokens=old.tokens + one.spend.tokens + lost[one.task_id, one.model],
            dollars=old.dollars + one.spend.dollars,
            unbilled_calls=old.unbilled_calls + one.spend.unbilled_calls,
            known_tokens=old.known_tokens + one.spend.tokens,
            known_dollars=old.known_dollars + one.spend.known_dollars,
        )
    alike = Counter((name, shapes) for name, shapes in map(_label, _tasks_of(spent, tasks)))
    rows = [
        row.model_copy(update={"shapes": f"{row.shapes} {task_id[:_ID_DIGITS]}"})
        if alike[row.task, row.shapes] > 1
        else row
        for (task_id, _), row in spent.items()
    ]
    return tuple(sorted(rows, key=lambda s: (s.task, s.shapes, s.model)))


def _tasks_of(
    spent: Mapping[tuple[str, str], Spending], tasks: Mapping[str, TaskSummary]
) -> list[TaskSummary]:
    return [tasks[task_id] for task_id in dict.fromkeys(task_id for task_id, _ in spent) if task_id]


def _label(task: TaskSummary) -> tuple[str, str]:
    return task.name, task.shapes
