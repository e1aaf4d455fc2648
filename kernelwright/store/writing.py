"""Writes to the store; each function is one transaction's work."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from kernelwright.errors import StoreError
from kernelwright.evaluator.evaluation import Evaluation, Samples
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.store.clock import CLOCK, now
from kernelwright.store.finding import index_champion
from kernelwright.store.leasing import is_held_elsewhere, keep
from kernelwright.store.record import (
    CampaignState,
    Candidate,
    Environment,
    Rank,
    TrialState,
    digest,
)
from kernelwright.store.schema import (
    CampaignRow,
    CandidateRow,
    ChampionRow,
    EnvironmentRow,
    EvaluationRow,
    EventRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TaskWordRow,
    TrialRow,
)

_PREFERENCE = ("measured", "predicted", "traffic")


@dataclass(frozen=True)
class Intent:
    """What is about to be evaluated, and for whom."""

    campaign_id: str
    task: Task
    program: Program
    author: str
    idea: str
    schedule: str = ""
    parent_program_id: str | None = None


def add_environment(session: Session, environment: Environment) -> str:
    """Add the environment unless it is known; return its id."""
    if session.get(EnvironmentRow, environment.id) is None:
        session.add(
            EnvironmentRow(
                id=environment.id,
                device=environment.device.name,
                chip=environment.device.chip,
                body=environment.model_dump_json(),
            )
        )
        session.flush()
    return environment.id


def add_campaign(
    session: Session, *, name: str, spec: str, environment: Environment, owner: str
) -> CampaignRow:
    """Open a campaign; it is the newest, whatever was done to the clock since the last."""
    if (newest := session.scalar(select(func.max(CampaignRow.heartbeat_at)))) is not None:
        CLOCK.pass_by(newest)
    started_at = now()
    row = CampaignRow(
        id=digest(uuid.uuid4().hex),
        name=name,
        state="running",
        spec=spec,
        environment_id=add_environment(session, environment),
        owner=owner,
        started_at=started_at,
        heartbeat_at=started_at,
        elapsed_s=0.0,
    )
    session.add(row)
    session.flush()
    return row


def end_campaign(
    session: Session, campaign_id: str, state: CampaignState, elapsed_s: float | None
) -> None:
    """Close a campaign, unless another process has taken it up."""
    ended_at = now()
    values = {"state": state, "ended_at": ended_at, "heartbeat_at": ended_at}
    session.execute(
        update(CampaignRow)
        .where(CampaignRow.id == campaign_id, CampaignRow.state == "running")
        .values(**values if elapsed_s is None else {**values, "elapsed_s": elapsed_s})
    )


def add_task(session: Session, task: Task, signature: str) -> str:
    """Add the task unless its fingerprint is known; return it."""
    if session.get(TaskRow, task.fingerprint) is not None:
        return task.fingerprint
    types = task.graph.output_types or task.graph.input_types
    session.add(
        TaskRow(
            id=task.fingerprint,
            name=task.name,
            signature=signature,
            dtype=types[0].dtype.value,
            shapes=", ".join(map(str, task.graph.input_types)),
            graph=task.graph.to_json(),
            created_at=now(),
        )
    )
    session.flush()
    words = {node.op for node in task.graph.nodes} | {task.name, signature}
    session.add_all(
        TaskWordRow(word=word, task_id=task.fingerprint) for word in sorted(words_of(words))
    )
    session.flush()
    return task.fingerprint


def words_of(texts: set[str]) -> set[str]:
    """Return the lower-case words by which a task is found, whole names among them."""
    whole = {text.lower()[:200] for text in texts if text}
    return whole | {word for text in whole for word in re.split(r"[^a-z0-9_]+", text) if word}


def add_trial(session: Session, intent: Intent, signature: str) -> TrialRow:
    """Write the program, the candidate and the intent to evaluate it."""
    candidate_id = _add_candidate(session, intent, signature)
    known = session.scalar(
        select(TrialRow).where(
            TrialRow.campaign_id == intent.campaign_id, TrialRow.candidate_id == candidate_id
        )
    )
    if known is not None:
        return known
    row = TrialRow(
        id=digest(intent.campaign_id, candidate_id),
        campaign_id=intent.campaign_id,
        candidate_id=candidate_id,
        state="intended",
        attempts=0,
        reused=False,
        created_at=now(),
    )
    session.add(row)
    session.flush()
    return row


def _add_candidate(session: Session, intent: Intent, signature: str) -> str:
    task_id = add_task(session, intent.task, signature)
    program_id = intent.program.id
    candidate_id = Candidate.id_of(task_id, program_id)
    if session.get(CandidateRow, candidate_id) is not None:
        return candidate_id
    if session.get(ProgramRow, program_id) is None:
        session.add(ProgramRow(id=program_id, body=intent.program.model_dump_json()))
        session.flush()
    session.add(
        CandidateRow(
            id=candidate_id,
            task_id=task_id,
            program_id=program_id,
            author=intent.author,
            idea=intent.idea,
            schedule=intent.schedule,
            parent_program_id=intent.parent_program_id,
            campaign_id=intent.campaign_id,
            created_at=now(),
        )
    )
    session.flush()
    return candidate_id


def lease_trial(session: Session, trial_id: str, owner: str, seconds: float) -> bool:
    """Take the trial for `owner`; False when it is done or somebody else is at the candidate."""
    row = _trial(session, trial_id)
    moment = now()
    held = row.lease_expires_at is not None and row.lease_expires_at > moment
    if row.state == "done" or (held and row.lease_owner != owner):
        return False
    if is_held_elsewhere(session, row, owner, moment):
        return False
    _take(session, row, "evaluating", owner, seconds)
    return True


def _take(session: Session, row: TrialRow, state: TrialState, owner: str, seconds: float) -> None:
    keep(session, row.campaign_id)
    row.state = state
    row.attempts += 1
    row.lease_owner = owner
    row.lease_expires_at = now() + timedelta(seconds=seconds)


def finish_trial(session: Session, trial_id: str, evaluation: Evaluation, rank: Rank | None) -> str:
    """Write what the evaluator found and end the trial.

    A trial that is done already keeps its evaluation: nothing is recorded twice.
    """
    trial = _trial(session, trial_id)
    if trial.evaluation_id is not None:
        return trial.evaluation_id
    keep(session, trial.campaign_id)
    row = _add_evaluation(session, trial, evaluation, rank)
    _end_trial(trial, row.id)
    return row.id


def reopen_trial(session: Session, trial_id: str, owner: str, seconds: float) -> bool:
    """Take a finished trial for the confirmation of its candidate; False while another does."""
    row = _trial(session, trial_id)
    if is_held_elsewhere(session, row, owner, now()):
        return False
    _take(session, row, "confirming", owner, seconds)
    return True


def finish_confirmation(
    session: Session, trial_id: str, evaluation: Evaluation, rank: Rank | None
) -> str:
    """Write the verdict of a confirmation, which is the trial's from now on."""
    trial = _trial(session, trial_id)
    keep(session, trial.campaign_id)
    row = _add_evaluation(session, trial, evaluation, rank)
    _end_trial(trial, row.id)
    if rank is not None:
        crown(session, row.id)
    return row.id


def _add_evaluation(
    session: Session, trial: TrialRow, evaluation: Evaluation, rank: Rank | None
) -> EvaluationRow:
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
    trial = _trial(session, trial_id)
    if trial.evaluation_id is None:
        trial.reused = True
        _end_trial(trial, evaluation_id)


def _end_trial(trial: TrialRow, evaluation_id: str) -> None:
    trial.state = "done"
    trial.evaluation_id = evaluation_id
    trial.lease_owner = None
    trial.lease_expires_at = None


def crown(session: Session, evaluation_id: str) -> None:
    """Make the evaluation's candidate its task's champion on the chip, if it leads."""
    row = session.get_one(EvaluationRow, evaluation_id)
    if row.rank_kind is None or row.rank_value is None:
        return
    chip = session.get_one(EnvironmentRow, row.environment_id).chip
    champion = session.get(ChampionRow, (row.task_id, row.device, chip))
    if champion is not None and not _leads(row, champion):
        return
    crowned = champion or ChampionRow(task_id=row.task_id, device=row.device, chip=chip)
    if champion is None or champion.candidate_id != row.candidate_id:
        crowned.crowned_at = now()
    crowned.candidate_id = row.candidate_id
    crowned.evaluation_id = row.id
    crowned.environment_id = row.environment_id
    crowned.state = "fresh"
    crowned.rank_kind = row.rank_kind
    crowned.rank_value = row.rank_value
    session.add(crowned)
    index_champion(session, crowned)


def _leads(row: EvaluationRow, champion: ChampionRow) -> bool:
    # A champion of another environment is stale at best: nothing it reached counts here.
    if champion.state != "fresh" or champion.environment_id != row.environment_id:
        return True
    assert row.rank_kind is not None
    assert row.rank_value is not None
    mine = (_PREFERENCE.index(row.rank_kind), row.rank_value)
    return mine < (_PREFERENCE.index(champion.rank_kind), champion.rank_value)


def log_event(session: Session, campaign_id: str, kind: str, body: str, owner: str) -> None:
    """Append a line to the campaign's log; from its own process it is a sign of life, too."""
    at = now()
    last = session.scalar(
        select(func.max(EventRow.ordinal)).where(EventRow.campaign_id == campaign_id)
    )
    ordinal = 0 if last is None else last + 1
    session.add(EventRow(campaign_id=campaign_id, ordinal=ordinal, at=at, kind=kind, body=body))
    session.execute(
        update(CampaignRow)
        .where(CampaignRow.id == campaign_id, CampaignRow.owner == owner)
        .values(heartbeat_at=at)
    )


def _trial(session: Session, trial_id: str) -> TrialRow:
    row = session.get(TrialRow, trial_id)
    if row is None:
        raise StoreError(f"expected the id of a trial, found {trial_id!r}; intend it first.")
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
