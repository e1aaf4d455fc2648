"""Who may go on with what: runs that are one process's at a time, and leases that expire."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kernelwright.errors import SearchRunsError, StoreError
from kernelwright.store.clock import now
from kernelwright.store.owner import EXPIRY, Owner, is_alive, is_other_threads, is_running
from kernelwright.store.queries.campaign import campaign_of
from kernelwright.store.schema import CampaignRow, EnvironmentRow, TrialRow


@dataclass(frozen=True)
class Beat:
    """A sign of life."""

    elapsed_s: float
    lease: timedelta
    """By how much the leases of what is in flight are renewed."""


def keep(session: Session, campaign_id: str) -> None:
    """Renew a run's sign of life, and refuse to go on with one that others have taken up."""
    renewed = session.execute(
        update(CampaignRow)
        .where(CampaignRow.id == campaign_id, CampaignRow.state == "running")
        .values(heartbeat_at=now())
    )
    if renewed.rowcount == 0:  # type: ignore[attr-defined]
        raise StoreError(
            f"campaign {campaign_id[:8]} has ended or goes on in another process; nothing more is "
            "recorded for it from this one."
        )


def beat(session: Session, campaign_id: str, owner: str, sign: Beat) -> bool:
    """Give a sign of life and renew the run's leases; False when others have taken it up."""
    moment = now()
    kept = session.execute(
        update(CampaignRow)
        .where(
            CampaignRow.id == campaign_id,
            CampaignRow.owner == owner,
            CampaignRow.state == "running",
        )
        .values(heartbeat_at=moment, elapsed_s=sign.elapsed_s)
    )
    if kept.rowcount == 0:  # type: ignore[attr-defined]
        return False
    session.execute(
        update(TrialRow)
        .where(
            TrialRow.campaign_id == campaign_id,
            TrialRow.lease_owner == owner,
            TrialRow.state.in_(("evaluating", "confirming")),
        )
        .values(lease_expires_at=moment + sign.lease)
    )
    return True


def take_over(
    session: Session,
    *,
    root_id: str,
    owner: str,
) -> None:
    """End the dead runs of a campaign that is about to go on.

    Raises:
        SearchRunsError: a run of the same search is alive.
    """
    rows = session.scalars(
        select(CampaignRow).where(
            CampaignRow.state == "running",
            CampaignRow.root_id == root_id,
        )
    )
    for row in rows:
        run = campaign_of(row, session.get_one(EnvironmentRow, row.environment_id))
        is_ours = run.owner == owner
        if is_other_threads(run.id) if is_ours else is_alive(run, now()):
            raise SearchRunsError(
                f"the same search runs already, as campaign {run.id[:8]} in "
                f"{Owner.parse(run.owner)}; wait for it, or stop it."
            )
        row.state, row.ended_at = "interrupted", row.heartbeat_at


def is_held_elsewhere(session: Session, trial: TrialRow, owner: str, moment: datetime) -> bool:
    """Say whether another campaign is at the same candidate where verdicts hold for both."""
    environment_id = select(CampaignRow.environment_id).where(CampaignRow.id == trial.campaign_id)
    others = session.execute(
        select(TrialRow.lease_owner, TrialRow.lease_expires_at)
        .join(CampaignRow, CampaignRow.id == TrialRow.campaign_id)
        .where(
            TrialRow.candidate_id == trial.candidate_id,
            TrialRow.campaign_id != trial.campaign_id,
            TrialRow.state.in_(("evaluating", "confirming")),
            CampaignRow.state == "running",
            CampaignRow.environment_id == environment_id.scalar_subquery(),
        )
    )
    return any(
        other not in (None, owner) and _holds(other, expires_at, moment)
        for other, expires_at in others
    )


def _holds(owner: str, expires_at: datetime | None, moment: datetime) -> bool:
    """Believe a process of this machine, and of another one a lease that is being renewed."""
    runs = is_running(owner)
    return runs if runs is not None else expires_at is not None and expires_at + EXPIRY > moment
