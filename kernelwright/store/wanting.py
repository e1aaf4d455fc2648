"""The wanted list: calls that no kernel could serve, counted."""

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kernelwright.store.record import Wanted
from kernelwright.store.schema import WantedRow

_SEPARATOR = "; "
_LONGEST_NAME = 200


def want(session: Session, wanted: Iterable[Wanted], *, origin: str) -> None:
    """Add to the counts of `origin`."""
    now = datetime.now(UTC)
    for call in wanted:
        row = session.get(WantedRow, (call.fingerprint, origin))
        if row is None:
            row = WantedRow(fingerprint=call.fingerprint, origin=origin, calls=0)
        row.function = call.function[:_LONGEST_NAME]
        row.inputs = _SEPARATOR.join(call.inputs)
        row.graph = call.graph_json
        row.calls += call.calls
        row.last_seen_at = now
        session.add(row)
        # Two calls of one list may have the same graph.
        session.flush()


def wanted(session: Session, *, limit: int) -> tuple[Wanted, ...]:
    """Return graphs by how often they were called, over all origins; the latest name counts."""
    calls = func.sum(WantedRow.calls)
    last_seen_at = func.max(WantedRow.last_seen_at)
    totals = session.execute(
        select(WantedRow.fingerprint, calls, last_seen_at)
        .group_by(WantedRow.fingerprint)
        .order_by(calls.desc(), last_seen_at.desc(), WantedRow.fingerprint)
        .limit(limit)
    )
    return tuple(_total(session, fingerprint, count) for fingerprint, count, _ in totals)


def _total(session: Session, fingerprint: str, calls: int) -> Wanted:
    latest = session.scalars(
        select(WantedRow)
        .where(WantedRow.fingerprint == fingerprint)
        .order_by(WantedRow.last_seen_at.desc())
        .limit(1)
    ).one()
    return Wanted(
        function=latest.function,
        fingerprint=fingerprint,
        inputs=tuple(text for text in latest.inputs.split(_SEPARATOR) if text),
        calls=calls,
        graph_json=latest.graph,
        last_seen_at=latest.last_seen_at,
    )
