"""The part of the store for readers who turn pages; reached as `KernelStore.browse`."""

from collections.abc import Collection, Mapping, Sequence

from kernelwright.store.browsing import candidates, outcomes, runs, summary, tasks
from kernelwright.store.browsing.record import (
    CandidateNode,
    CandidateOrder,
    FailedVerdicts,
    FoundTask,
    Improvement,
    ListedTask,
    ModelPayment,
    ModelSpend,
    RunTotals,
    StoredEvaluation,
    TaskVerdicts,
    TrialFilter,
    TrialPage,
    UnusableReplies,
)
from kernelwright.store.dialogue_store import Transaction
from kernelwright.store.model_call import ModelCall, RecordedModelCall
from kernelwright.store.queries.prefix import resolve_candidate, resolve_task
from kernelwright.store.record import Champion, HistoryEntry, LoggedEvent, TaskSummary


class BrowsingStore:
    """Reads that stay quick in a store of 100,000 evaluations; every method is one transaction."""

    def __init__(self, read: Transaction) -> None:
        self._read = read

    def tasks(
        self, run_ids: Collection[str] | None = None, *, device: tuple[str, str] | None = None
    ) -> tuple[ListedTask, ...]:
        """Return the tasks of some runs, or of the store, with what was tried and won.

        `device` is a name and a chip, whose champions are meant.
        """
        with self._read() as session:
            return tasks.listed_tasks(session, run_ids, device)

    def task(self, prefix: str) -> TaskSummary:
        """Return the one task whose fingerprint begins like this.

        Raises:
            InputError: none or several do.
        """
        with self._read() as session:
            task_id = resolve_task(session, prefix)
            return summary.summaries(session, [task_id])[task_id]

    def graph_json(self, task_id: str) -> str:
        """Return a task's reference graph as JSON."""
        with self._read() as session:
            return tasks.graph_json(session, task_id)

    def champions(self, task_id: str) -> tuple[Champion, ...]:
        """Return a task's champions on all devices, those that gain most first."""
        with self._read() as session:
            return tasks.champions(session, task_id)

    def find_tasks(self, text: str, *, limit: int = 20) -> tuple[FoundTask, ...]:
        """Return tasks whose words, name, types or id fit a text."""
        with self._read() as session:
            return tasks.found_tasks(session, text, limit)

    def trials(
        self,
        wanted: TrialFilter,
        *,
        order: CandidateOrder = "at",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> TrialPage:
        """Return a page of trials, and how many there are."""
        with self._read() as session:
            return candidates.trial_page(
                session, wanted, order=order, descending=descending, offset=offset, limit=limit
            )

    def trial_ids(
        self, wanted: TrialFilter, *, order: CandidateOrder = "at", descending: bool = True
    ) -> tuple[str, ...]:
        """Return the ids of all trials that are wanted, in an order."""
        with self._read() as session:
            return candidates.trial_ids(session, wanted, order=order, descending=descending)

    def trials_by_id(self, trial_ids: Sequence[str]) -> tuple[HistoryEntry, ...]:
        """Return trials by their ids, in that order."""
        with self._read() as session:
            return candidates.entries(session, trial_ids)

    def children(
        self, task_id: str, parent_id: str | None = None, *, offset: int = 0, limit: int = 200
    ) -> tuple[CandidateNode, ...]:
        """Return the candidates that descend from one; without one, a task's first ones."""
        with self._read() as session:
            parent = resolve_candidate(session, parent_id) if parent_id else None
            return candidates.children(session, task_id, parent, offset=offset, limit=limit)

    def evaluations(self, task_id: str, *, limit: int) -> tuple[StoredEvaluation, ...]:
        """Return a task's ranked evaluations unread, the best first."""
        with self._read() as session:
            return candidates.stored_evaluations(session, task_id, limit=limit)

    def ranked_candidates(self, task_id: str) -> int:
        """Count a task's candidates that have a ranked evaluation."""
        with self._read() as session:
            return candidates.ranked_candidates(session, task_id)

    def totals(self, run_ids: Collection[str]) -> RunTotals:
        """Add up what some runs did and spent."""
        with self._read() as session:
            return runs.run_totals(session, run_ids)

    def right_candidates(self, run_ids: Collection[str]) -> int:
        """Count the candidates of some runs that are right."""
        with self._read() as session:
            return runs.right_candidates(session, run_ids)

    def payments(self, run_ids: Collection[str]) -> tuple[ModelPayment, ...]:
        """Return what models were paid when."""
        with self._read() as session:
            return runs.payments(session, run_ids)

    def verdicts(self, run_ids: Collection[str]) -> tuple[TaskVerdicts, ...]:
        """Count each task's candidates by their last verdict."""
        with self._read() as session:
            return outcomes.task_verdicts(session, run_ids)

    def improvements(self, run_ids: Collection[str]) -> tuple[Improvement, ...]:
        """Return every candidate that led its task when it was tried, in order."""
        with self._read() as session:
            return outcomes.improvements(session, run_ids)

    def failures(self, run_ids: Collection[str]) -> tuple[FailedVerdicts, ...]:
        """Return each kind of failure with an example, the most frequent first."""
        with self._read() as session:
            return outcomes.failures(session, run_ids)

    def open_trials(self, run_ids: Collection[str]) -> tuple[HistoryEntry, ...]:
        """Return what waits or is judged, or was when a run died, in the order of proposal."""
        with self._read() as session:
            return outcomes.open_trials(session, run_ids)

    def turns_of(
        self, run_ids: Collection[str], candidate_ids: Collection[str]
    ) -> tuple[HistoryEntry, ...]:
        """Return all turns of a few candidates in some runs, in order."""
        with self._read() as session:
            return outcomes.turns_of(session, run_ids, candidate_ids)

    def evaluations_begun(self, run_ids: Collection[str]) -> int:
        """Count the trials of some runs that were begun and not reused."""
        with self._read() as session:
            return outcomes.evaluations_begun(session, run_ids)

    def spending(self, run_ids: Collection[str]) -> tuple[ModelSpend, ...]:
        """Add up what each model took for each task."""
        with self._read() as session:
            return outcomes.model_spend(session, run_ids)

    def unusable_replies(self, run_ids: Collection[str]) -> tuple[UnusableReplies, ...]:
        """Count the replies to calls that were of no use, by model and cause."""
        with self._read() as session:
            return outcomes.unusable_replies(session, run_ids)

    def calls_under_way(self, run_id: str) -> tuple[ModelCall, ...]:
        """Return the calls of a run that no model has answered yet."""
        with self._read() as session:
            return tuple(recorded.call for recorded in runs.calls_under_way(session, run_id))

    def calls_without_bill(self, run_ids: Collection[str]) -> tuple[RecordedModelCall, ...]:
        """Return the calls whose reply never came whole, those under way among them."""
        with self._read() as session:
            return runs.calls_without_bill(session, run_ids)

    def calls_about(self, task_id: str) -> tuple[RecordedModelCall, ...]:
        """Return the calls that models got about a task."""
        with self._read() as session:
            return runs.calls_about(session, task_id)

    def events_after(
        self, run_id: str, after: int = 0, *, limit: int = 500
    ) -> tuple[LoggedEvent, ...]:
        """Return the next lines of a run's log, oldest first."""
        with self._read() as session:
            return runs.events_after(session, run_id, after, limit=limit)

    def latest_events(
        self, ends: Mapping[str, int], *, limit: int = 100
    ) -> tuple[LoggedEvent, ...]:
        """Return the last lines of some runs' logs up to known ends, oldest first."""
        with self._read() as session:
            return runs.latest_events(session, ends, limit=limit)

    def event_count(self, ends: Mapping[str, int]) -> int:
        """Count the lines of some runs' logs up to known ends."""
        with self._read() as session:
            return runs.event_count(session, ends)

    def end_of_log(self) -> int:
        """Return the id of the last line of all logs; 0 where there is none."""
        with self._read() as session:
            return runs.end_of_log(session)

    def last_event_ids(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return the id of each run's last line, from which a reader goes on."""
        with self._read() as session:
            return runs.last_event_ids(session, run_ids)
