"""Evaluations: verdicts with their samples."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.evaluator.evaluation import Evaluation, Samples
from kernelwright.store.clock import now
from kernelwright.store.commands.campaign import add_environment
from kernelwright.store.record import Environment, Rank
from kernelwright.store.schema import (
    CampaignRow,
    EvaluationRow,
    SampleSetRow,
    TrialRow,
)


def add_evaluation(
    session: Session,
    trial: TrialRow,
    evaluation: Evaluation,
    rank: Rank | None,
    environment: Environment | None,
) -> EvaluationRow:
    """Write an evaluation of a trial's candidate, with its samples.

    It holds in `environment`, by default in the run's own.
    """
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


def _sample_sets(evaluation_id: str, samples: Sequence[Samples]) -> list[SampleSetRow]:
    return [
        SampleSetRow(evaluation_id=evaluation_id, arm=sample.arm, nanoseconds=sample.nanoseconds)
        for sample in samples
    ]
