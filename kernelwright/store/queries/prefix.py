"""Finds the one candidate, campaign or task whose id begins with what a person typed."""

from collections.abc import Mapping, Sequence
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.errors import InputError
from kernelwright.store.schema import (
    CampaignRow,
    CandidateRow,
    TaskRow,
)

SHORTEST_PREFIX = 4
Noun = Literal["candidate", "campaign", "task"]


def resolve_candidate(session: Session, prefix: str) -> str:
    """Find the one candidate whose id begins with `prefix`.

    Raises:
        InputError: none or several do, or the prefix is too short to mean one.
    """
    return _resolve(session, ("candidate",), prefix)[1]


def resolve_campaign(session: Session, prefix: str) -> str:
    """Find the one campaign whose id begins with `prefix`."""
    return _resolve(session, ("campaign",), prefix)[1]


def resolve_candidate_or_campaign(session: Session, prefix: str) -> tuple[Noun, str]:
    """Find the one candidate whose id begins with `prefix`, or else the one campaign."""
    return _resolve(session, ("candidate", "campaign"), prefix)


_TABLES: Mapping[Noun, type[CandidateRow] | type[CampaignRow] | type[TaskRow]] = {
    "candidate": CandidateRow,
    "campaign": CampaignRow,
    "task": TaskRow,
}
_LISTINGS = {
    "candidate": "`kernelwright best` or `kernelwright history`",
    "campaign": "`kernelwright campaign status`",
    "task": "`kernelwright history --json`",
}
"""Which command prints the ids of what."""
_READ_WITH: Mapping[Noun, str] = {
    "candidate": "`kernelwright show {0}`",
    "campaign": "`kernelwright report {0}`, and what models said with `kernelwright show {0} "
    "--conversation`",
}
"""Which command reads what, by its id."""


def resolve_task(session: Session, prefix: str) -> str:
    """Find the one task whose fingerprint begins with `prefix`."""
    return _resolve(session, ("task",), prefix)[1]


def _resolve(session: Session, nouns: Sequence[Noun], prefix: str) -> tuple[Noun, str]:
    noun, listings = " or ".join(nouns), " or ".join(_LISTINGS[n] for n in nouns)
    if len(prefix) < SHORTEST_PREFIX or not set(prefix.lower()) <= set("0123456789abcdef"):
        raise InputError(
            f"expected at least {SHORTEST_PREFIX} hexadecimal digits of a {noun}'s id, "
            f"found {prefix!r}; look them up with {listings}."
        )
    wanted = prefix.lower()
    for one in nouns:
        found = _beginning_with(session, one, wanted)
        if len(found) == 1:
            return one, found[0]
        if found:
            listed = ", ".join(id_[: len(wanted) + 4] for id_ in found[:5])
            raise InputError(f"{prefix!r} begins several ids ({listed}); give more digits.")
    others = [one for one in _READ_WITH if one not in nouns]
    other = next((one for one in others if _beginning_with(session, one, wanted)), None)
    advice = f"look them up with {listings}"
    if other is not None:
        advice = f"a {other} has: read it with {_READ_WITH[other].format(prefix)}"
    raise InputError(f"no {noun} in the store has an id that begins with {prefix!r}; {advice}.")


def _beginning_with(session: Session, noun: Noun, wanted: str) -> Sequence[str]:
    """Return up to six ids, enough to tell that a prefix means several."""
    table = _TABLES[noun]
    # A range, not LIKE, so that every database uses the primary key's index.
    query = select(table.id).where(table.id >= wanted, table.id < wanted + "g").limit(6)
    return session.scalars(query).all()
