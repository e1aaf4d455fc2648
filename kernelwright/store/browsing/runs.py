"""What runs did and spent, added up by the database, and their logs from behind a cursor."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from sqlalchemy import ColumnElement, case, false, func, or_, select
from sqlalchemy.orm import Session

from kernelwright.store.browsing.record import ModelPayment, RunTotals
from kernelwright.store.browsing.summary import RIGHT
from kernelwright.store.dialogue import (
    BILL_IS_KNOWN,
    IS_REPLAYED,
    KNOWN_TO_BE_PAID,
    PAID_AT_MOST,
    SUMS,
    recorded_call,
    spend_of,
)
from kernelwright.store.model_call import RecordedModelCall
from kernelwright.store.record import LoggedEvent
from kernelwright.store.schema import CallRow, EvaluationRow, EventRow, TrialRow

_MICRO = 1_000_000


def run_totals(session: Session, runs: Collection[str]) -> RunTotals:
    """Add up the trials and the paid calls of some runs."""
    is_done = (TrialRow.state == "done") & ~TrialRow.reused
    has_verdict = (TrialRow.state == "done") | TrialRow.evaluation_id.is_not(None)
    tried, ended, evaluated, under_way, waiting = session.execute(
        select(
            # What waits, or was cut off in flight, has no verdict and was not tried.
            func.count(case((has_verdict, TrialRow.candidate_id)).distinct()),
            func.sum(case((TrialRow.state == "done", 1), else_=0)),
            func.sum(case((is_done, 1), else_=0)),
            func.sum(case((TrialRow.state.in_(("evaluating", "confirming")), 1), else_=0)),
            func.sum(case((TrialRow.state == "intended", 1), else_=0)),
        ).where(TrialRow.campaign_id.in_(runs))
    ).one()
    sums = session.execute(select(*SUMS).where(CallRow.campaign_id.in_(runs))).one()
    return RunTotals(
        tried=tried,
        ended=ended or 0,
        evaluated=evaluated or 0,
        under_way=under_way or 0,
        waiting=waiting or 0,
        spend=spend_of(*sums),
    )


def right_candidates(session: Session, runs: Collection[str]) -> int:
    """Count the candidates of some runs that are right."""
    query = (
        select(func.count(TrialRow.candidate_id.distinct()))
        .join(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
        .where(TrialRow.campaign_id.in_(runs), EvaluationRow.status.in_(RIGHT))
    )
    return session.scalar(query) or 0


def calls_under_way(session: Session, run: str) -> tuple[RecordedModelCall, ...]:
    """Return the calls of a run that no model has answered yet."""
    query = (
        select(CallRow)
        .where(CallRow.campaign_id == run, CallRow.state == "begun")
        .order_by(CallRow.created_at, CallRow.ordinal)
    )
    return tuple(recorded_call(row) for row in session.scalars(query))


def calls_without_bill(session: Session, runs: Collection[str]) -> tuple[RecordedModelCall, ...]:
    """Return the calls of some runs whose bill is not known, those under way among them."""
    query = select(CallRow).where(CallRow.campaign_id.in_(runs), ~BILL_IS_KNOWN)
    return tuple(recorded_call(row) for row in session.scalars(query))


def payments(session: Session, runs: Collection[str]) -> tuple[ModelPayment, ...]:
    """Return what models were paid when; a call without an end at its worst, when it began."""
    query = select(
        CallRow.created_at,
        CallRow.latency_s,
        CallRow.provider,
        CallRow.model,
        CallRow.role,
        CallRow.task_id,
        CallRow.input_tokens + CallRow.output_tokens,
        PAID_AT_MOST,
        KNOWN_TO_BE_PAID,
        CallRow.state,
    ).where(CallRow.campaign_id.in_(runs), ~IS_REPLAYED)
    found = [
        ModelPayment(
            at=at + timedelta(seconds=latency or 0.0),
            model=f"{provider}:{model}",
            role=role,
            task_id=task,
            tokens=tokens,
            dollars=microdollars / _MICRO,
            known_dollars=known / _MICRO,
            is_failed=state == "failed",
        )
        for at, latency, provider, model, role, task, tokens, microdollars, known, state in (
            session.execute(query)
        )
    ]
    return tuple(sorted(found, key=lambda payment: payment.at))


def calls_about(session: Session, task_id: str) -> tuple[RecordedModelCall, ...]:
    """Return the calls that models got about a task, in the order in which they began."""
    query = (
        select(CallRow)
        .where(CallRow.task_id == task_id)
        .order_by(CallRow.created_at, CallRow.ordinal)
    )
    return tuple(recorded_call(row) for row in session.scalars(query))


def events_after(
    session: Session, run_id: str, after: int, *, limit: int
) -> tuple[LoggedEvent, ...]:
    """Return the next lines of a run's log, oldest first."""
    query = (
        select(EventRow)
        .where(EventRow.campaign_id == run_id, EventRow.id > after)
        .order_by(EventRow.id)
        .limit(limit)
    )
    return tuple(map(_event, session.scalars(query)))


def latest_events(
    session: Session, ends: Mapping[str, int], *, limit: int
) -> tuple[LoggedEvent, ...]:
    """Return the last lines of some runs' logs up to known ends, oldest first."""
    query = select(EventRow).where(_until(ends)).order_by(EventRow.id.desc()).limit(limit)
    return tuple(_event(row) for row in reversed(session.scalars(query).all()))


def event_count(session: Session, ends: Mapping[str, int]) -> int:
    """Count the lines of some runs' logs up to known ends."""
    return session.scalar(select(func.count()).select_from(EventRow).where(_until(ends))) or 0


def _until(ends: Mapping[str, int]) -> ColumnElement[bool]:
    """Choose each run's lines up to its end; those that are written meanwhile come later."""
    runs = [(EventRow.campaign_id == run) & (EventRow.id <= end) for run, end in ends.items()]
    return or_(false(), *runs)


def last_event_ids(session: Session, runs: Collection[str]) -> dict[str, int]:
    """Return the id of each run's last line; 0 where there is none."""
    query = (
        select(EventRow.campaign_id, func.max(EventRow.id))
        .where(EventRow.campaign_id.in_(runs))
        .group_by(EventRow.campaign_id)
    )
    known = {row[0]: row[1] for row in session.execute(query)}
    return {run: known.get(run, 0) for run in runs}


def end_of_log(session: Session) -> int:
    """Return the id of the last line of all logs."""
    return session.scalar(select(func.max(EventRow.id))) or 0


def _event(row: EventRow) -> LoggedEvent:
    return LoggedEvent(
        id=row.id, campaign_id=row.campaign_id, at=row.at, kind=row.kind, body=row.body
    )
