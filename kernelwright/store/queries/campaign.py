"""Runs of campaigns, their logs from behind a cursor, and their trials."""

from collections.abc import Callable, Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.store.record import (
    Campaign,
    Environment,
    LoggedEvent,
    Trial,
)
from kernelwright.store.schema import (
    CampaignRow,
    EnvironmentRow,
    EventRow,
    TrialRow,
)


def campaigns(session: Session, limit: int) -> tuple[Campaign, ...]:
    """Return campaigns, newest first."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .order_by(CampaignRow.started_at.desc())
        .limit(limit)
    )
    return tuple(campaign_of(row, e) for row, e in session.execute(query))


def campaign(session: Session, campaign_id: str) -> Campaign:
    """Return one campaign."""
    row = session.get_one(CampaignRow, campaign_id)
    return campaign_of(row, session.get_one(EnvironmentRow, row.environment_id))


def runs(session: Session, root_id: str) -> tuple[Campaign, ...]:
    """Return the runs of a campaign, the first one first."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .where(CampaignRow.root_id == root_id)
        .order_by(CampaignRow.started_at)
    )
    return tuple(campaign_of(row, e) for row, e in session.execute(query))


def root_to_continue(
    session: Session, name: str, continues: Callable[[Campaign], bool]
) -> str | None:
    """Return the campaign of the newest run of a name that is to be continued."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .where(CampaignRow.name == name)
        .order_by(CampaignRow.started_at.desc())
    )
    for row, environment in session.execute(query):
        run = campaign_of(row, environment)
        if continues(run):
            return None if run.state == "finished" else run.root_id
    return None


def campaign_of(row: CampaignRow, environment: EnvironmentRow) -> Campaign:
    """Read a campaign's row."""
    return Campaign.model_validate(
        {
            "id": row.id,
            "root_id": row.root_id,
            "name": row.name,
            "state": row.state,
            "spec": row.spec,
            "environment": Environment.model_validate_json(environment.body),
            "owner": row.owner,
            "started_at": row.started_at,
            "heartbeat_at": row.heartbeat_at,
            "elapsed_s": row.elapsed_s,
            "ended_at": row.ended_at,
        }
    )


def events(
    session: Session, campaign_id: str, after: int, kinds: Collection[str]
) -> tuple[LoggedEvent, ...]:
    """Return a run's log, oldest first, from behind a cursor."""
    query = (
        select(EventRow)
        .where(EventRow.campaign_id == campaign_id, EventRow.id > after)
        .order_by(EventRow.id)
    )
    if kinds:
        query = query.where(EventRow.kind.in_(kinds))
    return tuple(
        LoggedEvent(id=r.id, campaign_id=r.campaign_id, at=r.at, kind=r.kind, body=r.body)
        for r in session.scalars(query)
    )


def trial_of(row: TrialRow) -> Trial:
    """Read a trial's row."""
    return Trial.model_validate(
        {
            "id": row.id,
            "campaign_id": row.campaign_id,
            "candidate_id": row.candidate_id,
            "state": row.state,
            "attempts": row.attempts,
            "lease_owner": row.lease_owner,
            "lease_expires_at": row.lease_expires_at,
            "evaluation_id": row.evaluation_id,
        }
    )
