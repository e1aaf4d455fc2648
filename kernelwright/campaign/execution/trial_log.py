"""What a run writes down of its candidates: intents before they begin, verdicts when they end."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from kernelwright.agents.protocols import Proposal
from kernelwright.campaign.event import (
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    PlanDrawn,
    TaskEnded,
)
from kernelwright.campaign.execution.candidate_queue import Work
from kernelwright.campaign.execution.executor import JobVerdict
from kernelwright.campaign.report.search_report import loss_of
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation
from kernelwright.search.ranking import is_confirmed, is_final, rank_of
from kernelwright.search.search import Search, Suggestion
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import (
    Announced,
    Candidate,
    Environment,
    KernelStore,
    KnownEvaluation,
    NewEvent,
    NewTrial,
    Trial,
)

Listener = Callable[[Event], None]


def logged(event: Event | PlanDrawn) -> NewEvent:
    """Return an event as the store keeps it."""
    return NewEvent(type(event).__name__, event.model_dump_json())


class TrialLog:
    """Keeps the store and the search of one run in step; every event is in the store, too."""

    def __init__(
        self,
        store: KernelStore,
        campaign_id: str,
        search: Search,
        environment: Environment,
        listen: Listener,
    ) -> None:
        self._store = store
        self._campaign_id = campaign_id
        self._search = search
        self._environment = environment
        self._listen = listen
        self._trials: dict[tuple[str, str], Trial] = {}

    def add(self, suggestions: Sequence[Suggestion]) -> list[Work]:
        """Write down, in one transaction, that candidates are about to be evaluated."""
        if not suggestions:
            return []
        events = [self._proposed(one.search, one.proposal) for one in suggestions]
        trials = self._store.add_trials(
            [self._announced(one, event) for one, event in zip(suggestions, events, strict=True)]
        )
        works = []
        for one, event, trial in zip(suggestions, events, trials, strict=True):
            self._trials[one.search.task.fingerprint, one.proposal.program.id] = trial
            self._listen(event)
            works.append(Work(one, trial))
        return works

    def _proposed(self, search: TaskSearch, proposal: Proposal) -> CandidateProposed:
        task_id = search.task.fingerprint
        return CandidateProposed(
            task_id=task_id,
            candidate_id=Candidate.id_of(task_id, proposal.program.id),
            author=proposal.author,
            idea=proposal.idea,
            repairs=proposal.parent in search.repaired,
        )

    def _announced(self, suggestion: Suggestion, event: CandidateProposed) -> Announced:
        search, proposal = suggestion.search, suggestion.proposal
        new_trial = NewTrial(
            campaign_id=self._campaign_id,
            task=search.task,
            program=proposal.program,
            author=proposal.author,
            idea=proposal.idea,
            schedule=proposal.schedule,
            parent_program_id=proposal.parent,
        )
        return Announced(new_trial, search.signature, logged(event))

    def confirmation(self, suggestion: Suggestion) -> Work:
        """Return the work of confirming a candidate that was tried in this run."""
        key = suggestion.search.task.fingerprint, suggestion.proposal.program.id
        return Work(suggestion, self._trials[key])

    def begin(self, work: Work, lease: timedelta) -> bool:
        """Take a trial for this run; False while another campaign is at its candidate."""
        begin = self._store.begin_confirmation if work.confirms else self._store.lease
        return begin(work.trial.id, duration=lease)

    def reuse(self, work: Work) -> bool:
        """End a trial with a verdict that the store holds already, if there is one."""
        return not self.left_of([work])

    def left_of(self, works: Sequence[Work]) -> list[Work]:
        """End the trials whose verdicts the store holds already; return the others."""
        if not works:
            return []
        known: dict[tuple[str, bool], KnownEvaluation] = {}
        for confirms in {work.confirms for work in works}:
            # What is proposed hangs on a candidate's first verdict, whenever it was confirmed.
            found = self._store.known_of(
                [work.candidate_id for work in works if work.confirms == confirms],
                self._environment,
                evaluator_version=EVALUATOR_VERSION,
                unconfirmed=not confirms,
            )
            known |= {(id_, confirms): one for id_, one in found.items()}
        keyed = [(work, (work.candidate_id, work.confirms)) for work in works]
        return [work for work, key in keyed if not self._is_reused(work, known.get(key))]

    def _is_reused(self, work: Work, known: KnownEvaluation | None) -> bool:
        if known is None:
            return False
        return self._reconfirm(work, known) if work.confirms else self._reuse(work, known)

    def record(self, work: Work, verdict: JobVerdict) -> None:
        """Write a verdict, and tell the search."""
        if work.confirms:
            self._confirm(work, verdict)
            return
        evaluation = verdict.evaluation
        event = self._judged(work, evaluation, reused=False)
        self._store.record(
            work.trial.id,
            evaluation,
            rank=rank_of(evaluation),
            environment=verdict.environment,
            event=logged(event),
        )
        self._listen(event)

    def say_what_ended(self) -> None:
        """Log the tasks that ended since the last time."""
        for search in self._search.ended():
            event = TaskEnded(
                task_id=search.task.fingerprint, reason=search.reason, gain=loss_of(search)
            )
            self._store.log(self._campaign_id, *logged(event))
            self._listen(event)

    def _reuse(self, work: Work, known: KnownEvaluation) -> bool:
        if not is_final(known.evaluation):
            return False
        event = self._judged(work, known.evaluation, reused=True)
        self._store.reuse(work.trial.id, known.id, event=logged(event))
        self._listen(event)
        return True

    def _reconfirm(self, work: Work, known: KnownEvaluation) -> bool:
        if not known.evaluation.has_met_hidden_gate:
            return False
        event = self._confirmed(work, known.evaluation, reused=True)
        if is_confirmed(known.evaluation):
            self._store.promote(known.id)
        self._store.log(self._campaign_id, *logged(event))
        self._listen(event)
        return True

    def _confirm(self, work: Work, verdict: JobVerdict) -> None:
        evaluation = verdict.evaluation
        rank = rank_of(evaluation) if is_confirmed(evaluation) else None
        event = self._confirmed(work, evaluation, reused=False)
        self._store.confirm(
            work.trial.id,
            evaluation,
            rank=rank,
            environment=verdict.environment,
            event=logged(event),
        )
        self._listen(event)

    def _judged(self, work: Work, evaluation: Evaluation, *, reused: bool) -> CandidateJudged:
        return CandidateJudged(
            task_id=work.search.task.fingerprint,
            candidate_id=work.candidate_id,
            status=evaluation.status,
            summary=evaluation.summary,
            rank=rank_of(evaluation),
            reused=reused,
            leads=self._search.tell(work.suggestion, evaluation, reused=reused),
        )

    def _confirmed(self, work: Work, evaluation: Evaluation, *, reused: bool) -> CandidateConfirmed:
        survived = self._search.tell(work.suggestion, evaluation)
        return CandidateConfirmed(
            task_id=work.search.task.fingerprint,
            candidate_id=work.candidate_id,
            status=evaluation.status,
            summary=evaluation.summary,
            rank=rank_of(evaluation) if survived else None,
            reused=reused,
        )
