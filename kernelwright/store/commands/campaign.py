"""Runs of a campaign: begun, ended, linked to their tasks, and their log."""

import uuid

from sqlalchemy import case, func, select, update
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.store.clock import CLOCK, now
from kernelwright.store.record import CampaignState, Environment
from kernelwright.store.schema import (
    CampaignRow,
    CampaignTaskRow,
    EnvironmentRow,
    EventRow,
)
from kernelwright.store.upsert import insert_once


def add_environment(session: Session, environment: Environment) -> str:
    """Add the environment unless it is known; return its id."""
    insert_once(
        session,
        EnvironmentRow,
        id=environment.id,
        device=environment.device.name,
        chip=environment.device.chip,
        body=environment.model_dump_json(),
    )
    return environment.id


def add_campaign(
    session: Session,
    *,
    name: str,
    spec: str,
    environment: Environment,
    owner: str,
    root_id: str | None,
) -> CampaignRow:
    """Open a run; it is the newest, whatever was done to the clock since the last.

    Without `root_id` it is the first of a campaign.
    """
    if (newest := session.scalar(select(func.max(CampaignRow.heartbeat_at)))) is not None:
        CLOCK.pass_by(newest)
    started_at = now()
    run_id = digest(uuid.uuid4().hex)
    row = CampaignRow(
        id=run_id,
        root_id=root_id or run_id,
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
    """Close a run, unless another process has taken it up."""
    ended_at = now()
    values = {"state": state, "ended_at": ended_at, "heartbeat_at": ended_at}
    session.execute(
        update(CampaignRow)
        .where(CampaignRow.id == campaign_id, CampaignRow.state == "running")
        .values(**values if elapsed_s is None else {**values, "elapsed_s": elapsed_s})
    )


def link_task(session: Session, campaign_id: str, task_id: str, function: str) -> None:
    """Note that a run searches a task for a function, once."""
    insert_once(
        session, CampaignTaskRow, campaign_id=campaign_id, task_id=task_id, function=function
    )


def log_event(session: Session, campaign_id: str, kind: str, body: str, owner: str) -> None:
    """Append a line to the campaign's log; from its own process it is a sign of life, too.

    The campaign's row is locked first: its lines become visible in the order of their ids, so
    that a reader's cursor passes none by.
    """
    at = now()
    session.execute(
        update(CampaignRow)
        .where(CampaignRow.id == campaign_id)
        .values(heartbeat_at=case((CampaignRow.owner == owner, at), else_=CampaignRow.heartbeat_at))
    )
    session.add(EventRow(campaign_id=campaign_id, at=at, kind=kind, body=body))
