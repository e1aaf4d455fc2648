"""Keeps answers that took the database long, for as long as nothing happened since."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from kernelwright.campaign.history.resuming import is_alive
from kernelwright.campaign.history.run_state import RunState, state_of
from kernelwright.store import Campaign, KernelStore
from kernelwright.store.browsing import CandidateOrder, ListedTask, TrialFilter, TrialPage

_MOST = 64
_LONGEST_S = 10.0
"""A champion may be settled again without a word in any log."""
_NEAR = 1_000
"""Rows that are found quicker than the whole order."""
_MOST_ORDERS = 4
"""Each may hold 100,000 ids, some 10 MB."""
Answer = TypeVar("Answer")


class Recent(Generic[Answer]):
    """Answers by question, each with the mark that the store had then."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[Hashable, float, Answer]] = OrderedDict()

    def get(self, question: Hashable, mark: Hashable, ask: Callable[[], Answer]) -> Answer:
        """Return the known answer while the mark is the same, else ask."""
        with self._lock:
            known = self._known.get(question)
        if known and known[0] == mark and time.monotonic() - known[1] < _LONGEST_S:
            return known[2]
        answer = ask()
        with self._lock:
            self._known[question] = (mark, time.monotonic(), answer)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return answer


_TABLES: WeakKeyDictionary[KernelStore, Recent[tuple[ListedTask, ...]]] = WeakKeyDictionary()
_ORDERS: WeakKeyDictionary[KernelStore, Recent[tuple[str, ...]]] = WeakKeyDictionary()
_STATES: WeakKeyDictionary[KernelStore, Recent[RunState]] = WeakKeyDictionary()


def task_rows(store: KernelStore, runs: tuple[Campaign, ...] | None) -> tuple[ListedTask, ...]:
    """Return the rows of the task table of some runs, with their device's champions."""
    table = _TABLES.setdefault(store, Recent())
    if runs is None:
        return table.get(None, store.browse.end_of_log(), store.browse.tasks)
    ids = tuple(run.id for run in runs)
    device = runs[-1].environment.device
    mark = tuple(store.browse.last_event_ids(ids).items())
    return table.get(ids, mark, lambda: store.browse.tasks(ids, device=(device.name, device.chip)))


def trial_page(
    store: KernelStore,
    wanted: TrialFilter,
    *,
    order: CandidateOrder,
    descending: bool,
    offset: int,
    limit: int,
) -> TrialPage:
    """Return a page of trials; who scrolls far has the whole order looked up once."""
    if offset < _NEAR:
        return store.browse.trials(
            wanted, order=order, descending=descending, offset=offset, limit=limit
        )
    runs = wanted.run_ids
    mark = store.browse.last_event_ids(runs) if runs else {"": store.browse.end_of_log()}
    ids = _ORDERS.setdefault(store, Recent(_MOST_ORDERS)).get(
        (wanted, order, descending),
        tuple(mark.items()),
        lambda: store.browse.trial_ids(wanted, order=order, descending=descending),
    )
    items = store.browse.trials_by_id(ids[offset : offset + limit])
    return TrialPage(items=items, total=len(ids))


def known_state(store: KernelStore, run: Campaign) -> RunState:
    """Return how a campaign stands; of one that is over, added up once."""
    if is_alive(run):
        return state_of(store, run)
    states = _STATES.setdefault(store, Recent())
    mark = (run.state, tuple(store.browse.last_event_ids([run.id]).items()))
    return states.get(run.id, mark, lambda: state_of(store, run))
