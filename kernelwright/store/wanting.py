"""The wanted list: calls that no kernel could serve, counted."""

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from kernelwright.store.record import Wanted
from kernelwright.store.schema import WantedRow
from kernelwright.store.upsert import insert_once

_SEPARATOR = "; "


def want(session: Session, wanted: Iterable[Wanted], *, origin: str) -> None:
    """Add to the counts of `origin`; whoever else counts at the same time is not lost."""
    now = datetime.now(UTC)
    # In one order, so that two writers of the same calls do not wait for each other.
    for call in sorted(wanted, key=lambda call: call.fingerprint):
        insert_once(
            session,
            WantedRow,
            fingerprint=call.fingerprint,
            origin=origin,
            function=call.function,
            inputs="",
            graph=call.graph_json,
            calls=0,
            last_seen_at=now,
        )
        session.execute(
            update(WantedRow)
            .where(WantedRow.fingerprint == call.fingerprint, WantedRow.origin == origin)
            .values(
                function=call.function,
                inputs=_SEPARATOR.join(call.inputs),
                graph=call.graph_json,
                calls=WantedRow.calls + call.calls,
                last_seen_at=now,
            )
        )


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
