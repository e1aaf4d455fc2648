"""Trials and their verdicts, as the store writes them down: intent first, verdict after."""

from collections.abc import Sequence
from datetime import timedelta

from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.store.commands import trial
from kernelwright.store.commands.trial import Announced, NewTrial
from kernelwright.store.queries import campaign as campaign_queries
from kernelwright.store.record import Environment, NewEvent, Rank, Trial
from kernelwright.store.retry import retry_when_blocked
from kernelwright.store.writer import LEASE, StoreWriter


class TrialWriter(StoreWriter):
    """Announces what is about to be evaluated, leases it, and records what came of it."""

    @retry_when_blocked
    def add_trial(
        self, new_trial: NewTrial, *, signature: str = "", event: NewEvent | None = None
    ) -> Trial:
        """Write down what is about to be evaluated, before it is; the same intent is one trial.

        `signature` describes the task in a word or two, such as `add + rms_norm`.
        """
        (added,) = self.add_trials([Announced(new_trial, signature, event)])
        return added

    @retry_when_blocked
    def add_trials(self, announced: Sequence[Announced]) -> tuple[Trial, ...]:
        """Write down several in one transaction; see `add_trial`."""
        with self._write() as session:
            for one in announced:
                self._log(session, one.new_trial.campaign_id, one.event)
            return tuple(
                campaign_queries.trial_of(trial.add_trial(session, one.new_trial, one.signature))
                for one in announced
            )

    @retry_when_blocked
    def lease(self, trial_id: str, *, duration: timedelta = LEASE) -> bool:
        """Take a trial for this process; False when it is done or others are at its candidate."""
        with self._write() as session:
            return trial.lease_trial(session, trial_id, self._owner, duration.total_seconds())

    @retry_when_blocked
    def record(
        self,
        trial_id: str,
        evaluation: Evaluation,
        *,
        rank: Rank | None,
        environment: Environment | None = None,
        event: NewEvent | None = None,
    ) -> str:
        """Write an evaluation with its samples and end its trial, once; return its id.

        `rank` is None for what is not correct. The verdict holds in `environment`, by default in
        the campaign's own.
        """
        with self._write() as session:
            self._log_of(session, trial_id, event)
            return trial.finish_trial(session, trial_id, evaluation, rank, environment)

    @retry_when_blocked
    def begin_confirmation(self, trial_id: str, *, duration: timedelta = LEASE) -> bool:
        """Write down that a finished trial's candidate is about to be confirmed.

        False when another campaign is at it.
        """
        with self._write() as session:
            return trial.reopen_trial(session, trial_id, self._owner, duration.total_seconds())

    @retry_when_blocked
    def confirm(
        self,
        trial_id: str,
        evaluation: Evaluation,
        *,
        rank: Rank | None,
        environment: Environment | None = None,
        event: NewEvent | None = None,
    ) -> str:
        """Write the verdict of a confirmation, and promote the candidate if it leads.

        `rank` is None for what did not survive. Returns the evaluation's id.
        """
        with self._write() as session:
            self._log_of(session, trial_id, event)
            return trial.finish_confirmation(session, trial_id, evaluation, rank, environment)

    @retry_when_blocked
    def reuse(self, trial_id: str, evaluation_id: str, *, event: NewEvent | None = None) -> None:
        """End a trial with an evaluation that the store held already."""
        with self._write() as session:
            self._log_of(session, trial_id, event)
            trial.reuse_evaluation(session, trial_id, evaluation_id)
