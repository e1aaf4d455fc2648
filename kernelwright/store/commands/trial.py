"""Tasks, candidates and trials: proposed, leased, and ended with a verdict."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, or_, select, true, update
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.errors import StoreError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.store.clock import now
from kernelwright.store.commands.champion import promote
from kernelwright.store.commands.evaluation import add_evaluation
from kernelwright.store.commands.leasing import is_held_elsewhere, keep
from kernelwright.store.commands.task import add_task
from kernelwright.store.record import Candidate, Environment, NewEvent, Rank, TrialState
from kernelwright.store.schema import (
    CandidateRow,
    ProgramRow,
    TrialRow,
)
from kernelwright.store.upsert import insert_once


@dataclass(frozen=True)
class NewTrial:
    """What is about to be evaluated, and for whom."""

    campaign_id: str
    task: Task
    program: Program
    author: str
    idea: str
    schedule: str = ""
    parent_program_id: str | None = None


@dataclass(frozen=True)
class Announced:
    """An intent, its task's signature in a word or two, and the log's line that tells of it."""

    new_trial: NewTrial
    signature: str = ""
    event: NewEvent | None = None


def add_trial(session: Session, new_trial: NewTrial, signature: str) -> TrialRow:
    """Write the program, the candidate and the intent to evaluate it; the same one is one trial."""
    candidate_id = _add_candidate(session, new_trial, signature)
    trial_id = digest(new_trial.campaign_id, candidate_id)
    insert_once(
        session,
        TrialRow,
        id=trial_id,
        campaign_id=new_trial.campaign_id,
        candidate_id=candidate_id,
        state="intended",
        attempts=0,
        reused=False,
        created_at=now(),
    )
    return session.execute(
        select(TrialRow).where(
            TrialRow.campaign_id == new_trial.campaign_id, TrialRow.candidate_id == candidate_id
        )
    ).scalar_one()


def _add_candidate(session: Session, new_trial: NewTrial, signature: str) -> str:
    task_id = add_task(session, new_trial.task, signature)
    program_id = new_trial.program.id
    candidate_id = Candidate.id_of(task_id, program_id)
    if session.get(CandidateRow, candidate_id) is not None:
        return candidate_id
    insert_once(session, ProgramRow, id=program_id, body=new_trial.program.model_dump_json())
    insert_once(
        session,
        CandidateRow,
        id=candidate_id,
        task_id=task_id,
        program_id=program_id,
        author=new_trial.author,
        idea=new_trial.idea,
        schedule=new_trial.schedule,
        parent_program_id=new_trial.parent_program_id,
        campaign_id=new_trial.campaign_id,
        created_at=now(),
    )
    return candidate_id


def lease_trial(session: Session, trial_id: str, owner: str, seconds: float) -> bool:
    """Take the trial for `owner`; False when it is done or somebody else is at the candidate."""
    moment = now()
    free = or_(
        TrialRow.lease_expires_at.is_(None),
        TrialRow.lease_expires_at <= moment,
        TrialRow.lease_owner == owner,
    )
    return _take(session, trial_id, "evaluating", owner, seconds, (TrialRow.state != "done") & free)


def _take(
    session: Session,
    trial_id: str,
    state: TrialState,
    owner: str,
    seconds: float,
    is_free: ColumnElement[bool],
) -> bool:
    """Take a trial where it is free and no other campaign is at its candidate.

    Rows are locked in one order everywhere, so that no two writers wait for each other: the
    campaign, the candidate, the trial, the champion. The candidate's lock lets one campaign at a
    time look whether another is at it.
    """
    row = _trial(session, trial_id)
    keep(session, row.campaign_id)
    session.execute(
        select(CandidateRow.id)
        .where(CandidateRow.id == row.candidate_id)
        .with_for_update(key_share=True)
    )
    if is_held_elsewhere(session, row, owner, now()):
        return False
    taken = session.execute(
        update(TrialRow)
        .where(TrialRow.id == trial_id, is_free)
        .values(
            state=state,
            attempts=TrialRow.attempts + 1,
            lease_owner=owner,
            lease_expires_at=now() + timedelta(seconds=seconds),
        )
        .returning(TrialRow.id)
        .execution_options(synchronize_session=False)
    )
    return taken.first() is not None


def finish_trial(
    session: Session,
    trial_id: str,
    evaluation: Evaluation,
    rank: Rank | None,
    environment: Environment | None = None,
) -> str:
    """Write what the evaluator found and end the trial.

    It holds in `environment`, by default in the run's own. A trial that is done already keeps its
    evaluation: nothing is recorded twice.
    """
    trial = _kept_trial(session, trial_id)
    if trial.evaluation_id is not None:
        return trial.evaluation_id
    row = add_evaluation(session, trial, evaluation, rank, environment)
    _end_trial(trial, row.id)
    return row.id


def reopen_trial(session: Session, trial_id: str, owner: str, seconds: float) -> bool:
    """Take a finished trial for the confirmation of its candidate; False while another does."""
    return _take(session, trial_id, "confirming", owner, seconds, true())


def finish_confirmation(
    session: Session,
    trial_id: str,
    evaluation: Evaluation,
    rank: Rank | None,
    environment: Environment | None = None,
) -> str:
    """Write the verdict of a confirmation, which is the trial's from now on."""
    trial = _kept_trial(session, trial_id)
    row = add_evaluation(session, trial, evaluation, rank, environment)
    _end_trial(trial, row.id)
    if rank is not None:
        session.flush()
        promote(session, row.id)
    return row.id


def _kept_trial(session: Session, trial_id: str) -> TrialRow:
    """Return a trial of a run that is still this process's, locked until the transaction ends."""
    keep(session, _trial(session, trial_id).campaign_id)
    return session.get_one(TrialRow, trial_id, with_for_update=True, populate_existing=True)


def reuse_evaluation(session: Session, trial_id: str, evaluation_id: str) -> None:
    """End the trial with an evaluation that the store held already."""
    trial = session.get_one(TrialRow, _trial(session, trial_id).id, with_for_update=True)
    if trial.evaluation_id is None:
        trial.reused = True
        _end_trial(trial, evaluation_id)


def _end_trial(trial: TrialRow, evaluation_id: str) -> None:
    trial.state = "done"
    trial.evaluation_id = evaluation_id
    trial.lease_owner = None
    trial.lease_expires_at = None


def campaign_of(session: Session, trial_id: str) -> str:
    """Return the id of a trial's run."""
    return _trial(session, trial_id).campaign_id


def _trial(session: Session, trial_id: str) -> TrialRow:
    row = session.get(TrialRow, trial_id)
    if row is None:
        raise StoreError(f"expected the id of a trial, found {trial_id!r}; add it first.")
    return row
