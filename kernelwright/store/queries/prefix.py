"""Finds the one candidate, campaign or task whose id begins with what a person typed."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.errors import InputError
from kernelwright.store.schema import (
    CampaignRow,
    CandidateRow,
    TaskRow,
)

SHORTEST_PREFIX = 4


def resolve_candidate(session: Session, prefix: str) -> str:
    """Find the one candidate whose id begins with `prefix`.

    Raises:
        InputError: none or several do, or the prefix is too short to mean one.
    """
    return _resolve(session, CandidateRow, "candidate", prefix)


def resolve_campaign(session: Session, prefix: str) -> str:
    """Find the one campaign whose id begins with `prefix`."""
    return _resolve(session, CampaignRow, "campaign", prefix)


_LISTINGS = {
    "candidate": "`kernelwright best` or `kernelwright history`",
    "campaign": "`kernelwright campaign status`",
    "task": "`kernelwright history --json`",
}
"""Which command prints the ids of what."""


def resolve_task(session: Session, prefix: str) -> str:
    """Find the one task whose fingerprint begins with `prefix`."""
    return _resolve(session, TaskRow, "task", prefix)


def _resolve(
    session: Session,
    table: type[CandidateRow] | type[CampaignRow] | type[TaskRow],
    noun: str,
    prefix: str,
) -> str:
    if len(prefix) < SHORTEST_PREFIX or not set(prefix.lower()) <= set("0123456789abcdef"):
        raise InputError(
            f"expected at least {SHORTEST_PREFIX} hexadecimal digits of a {noun}'s id, "
            f"found {prefix!r}; look them up with {_LISTINGS[noun]}."
        )
    wanted = prefix.lower()
    # A range, not LIKE, so that every database uses the primary key's index.
    query = select(table.id).where(table.id >= wanted, table.id < wanted + "g").limit(6)
    found: Sequence[str] = session.scalars(query).all()
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            f"no {noun} in the store has an id that begins with {prefix!r}; "
            f"look them up with {_LISTINGS[noun]}."
        )
    listed = ", ".join(id_[: len(wanted) + 4] for id_ in found[:5])
    raise InputError(f"{prefix!r} begins several ids ({listed}); give more digits.")
