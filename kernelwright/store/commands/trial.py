"""Tasks, candidates and trials: proposed, leased, and ended with a verdict."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from sqlalchemy import ColumnElement, or_, select, true, update
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.errors import StoreError
from kernelwright.evaluator.evaluation import Evaluation, Samples
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.store.clock import now
from kernelwright.store.commands.campaign import add_environment
from kernelwright.store.commands.champion import promote
from kernelwright.store.commands.leasing import is_held_elsewhere, keep
from kernelwright.store.record import Candidate, Environment, NewEvent, Rank, TrialState
from kernelwright.store.schema import (
    CampaignRow,
    CandidateRow,
    EvaluationRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TaskWordRow,
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


def add_task(session: Session, task: Task, signature: str) -> str:
    """Add the task unless its fingerprint is known; return it.

    A region that its function calls otherwise now goes by the new name.
    """
    known = session.get(TaskRow, task.fingerprint)
    if known is not None:
        if known.name != task.name and known.name.partition("/")[0] == _function(task):
            known.name = task.name
            _add_words(session, task, signature)
        return task.fingerprint
    types = task.graph.output_types or task.graph.input_types
    shapes = ", ".join(map(str, task.graph.input_types))
    is_new = insert_once(
        session,
        TaskRow,
        id=task.fingerprint,
        name=task.name,
        signature=signature,
        dtype=types[0].dtype.value,
        shapes=shapes,
        tuning_key=digest(signature, shapes),
        graph=task.graph.to_json(),
        created_at=now(),
    )
    if is_new:
        _add_words(session, task, signature)
        session.flush()
    return task.fingerprint


def _function(task: Task) -> str:
    return task.name.partition("/")[0]


def _add_words(session: Session, task: Task, signature: str) -> None:
    words = words_of({node.op for node in task.graph.nodes} | {task.name, signature})
    for word in sorted(words):
        insert_once(session, TaskWordRow, word=word, task_id=task.fingerprint)


def words_of(texts: set[str]) -> set[str]:
    """Return the lower-case words by which a task is found, whole names among them."""
    whole = {text.lower()[:200] for text in texts if text}
    return whole | {word for text in whole for word in re.split(r"[^a-z0-9_]+", text) if word}


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
    row = _add_evaluation(session, trial, evaluation, rank, environment)
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
    row = _add_evaluation(session, trial, evaluation, rank, environment)
    _end_trial(trial, row.id)
    if rank is not None:
        session.flush()
        promote(session, row.id)
    return row.id


def _kept_trial(session: Session, trial_id: str) -> TrialRow:
    """Return a trial of a run that is still this process's, locked until the transaction ends."""
    keep(session, _trial(session, trial_id).campaign_id)
    return session.get_one(TrialRow, trial_id, with_for_update=True, populate_existing=True)


def _add_evaluation(
    session: Session,
    trial: TrialRow,
    evaluation: Evaluation,
    rank: Rank | None,
    environment: Environment | None,
) -> EvaluationRow:
    if environment is not None:
        environment_id = add_environment(session, environment)
    else:
        environment_id = session.scalars(
            select(CampaignRow.environment_id).where(CampaignRow.id == trial.campaign_id)
        ).one()
    row = EvaluationRow(
        id=digest(trial.id, uuid.uuid4().hex),
        candidate_id=trial.candidate_id,
        task_id=evaluation.task,
        environment_id=environment_id,
        evaluator_version=evaluation.evaluator_version,
        device=evaluation.device.name,
        status=evaluation.status.value,
        stage=evaluation.stages[-1].stage.value if evaluation.stages else None,
        summary=evaluation.summary,
        rank_kind=rank.kind if rank else None,
        rank_value=rank.value if rank else None,
        body=evaluation.model_copy(update={"samples": ()}).model_dump_json(),
        duration_s=evaluation.duration_s,
        created_at=now(),
    )
    session.add(row)
    session.flush()
    session.add_all(_sample_sets(row.id, evaluation.samples))
    return row


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


def _sample_sets(evaluation_id: str, samples: Sequence[Samples]) -> list[SampleSetRow]:
    return [
        SampleSetRow(
            evaluation_id=evaluation_id,
            arm=sample.arm,
            nanoseconds=np.asarray(sample.nanoseconds, dtype="<f8").tobytes(),
        )
        for sample in samples
    ]
