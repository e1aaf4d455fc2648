"""Model calls, lessons and regression cases: written and read."""

import json

from sqlalchemy import and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.errors import StoreError
from kernelwright.store.clock import now
from kernelwright.store.model_call import Lesson, ModelCall, ModelOutcome, RecordedModelCall, Spend
from kernelwright.store.schema import (
    CallRow,
    LessonRow,
    RegressionCaseRow,
)
from kernelwright.store.upsert import insert_once

_TOKENS = CallRow.input_tokens + CallRow.output_tokens
BILL_IS_KNOWN = or_(CallRow.state == "finished", _TOKENS > 0)
"""A reply that came whole and could not be used, an empty one, failed and was billed as well."""
PAID_AT_MOST = case(
    (CallRow.state == "begun", CallRow.reserved_microdollars), else_=CallRow.cost_microdollars
)
"""What a call took; its worst case where its end is not known, which a killed process leaves."""
KNOWN_TO_BE_PAID = case((BILL_IS_KNOWN, CallRow.cost_microdollars), else_=0)
_HAS_NO_BILL = and_(~BILL_IS_KNOWN, or_(CallRow.state == "begun", CallRow.cost_microdollars > 0))
IS_REPLAYED = and_(CallRow.state == "finished", CallRow.latency_s.is_(None))
"""A recorded reply that was given again, which is no call of its own."""
SUMS = (
    func.sum(case((IS_REPLAYED, 0), else_=1)),
    func.sum(case((IS_REPLAYED, 1), else_=0)),
    func.sum(case((_HAS_NO_BILL, 1), else_=0)),
    func.sum(case((IS_REPLAYED, 0), else_=_TOKENS)),
    func.sum(PAID_AT_MOST),
    func.sum(KNOWN_TO_BE_PAID),
)
"""For `spend_of`: calls, replays, calls without a bill, tokens of whole replies; microdollars at
most, and of whole replies."""


def begin_call(session: Session, call: ModelCall) -> None:
    """Write a call before it is sent; beginning the same id again changes nothing."""
    if session.get(CallRow, call.id) is not None:
        return
    while not _inserted(session, call):
        # Another process began the same request, and has the number that was free.
        if session.get(CallRow, call.id) is not None:
            return


def _inserted(session: Session, call: ModelCall) -> bool:
    last = session.scalar(
        select(func.max(CallRow.ordinal)).where(CallRow.request_hash == call.request_hash)
    )
    return insert_once(
        session,
        CallRow,
        **call.model_dump(),
        state="begun",
        ordinal=0 if last is None else last + 1,
        input_tokens=0,
        cached_input_tokens=0,
        output_tokens=0,
        cost_microdollars=0,
        created_at=now(),
    )


def finish_call(session: Session, call_id: str, outcome: ModelOutcome) -> None:
    """Write how a call ended."""
    row = session.get(CallRow, call_id)
    if row is None:
        raise StoreError(f"expected the id of a begun call, found {call_id!r}; begin it first.")
    for name, value in outcome.model_dump().items():
        setattr(row, name, value)
    row.state = "failed" if outcome.failure else "finished"


def keep_flaw(session: Session, call_id: str, flaw: str) -> None:
    """Write why a whole reply is of no use; the call stays finished."""
    session.execute(update(CallRow).where(CallRow.id == call_id).values(failure=flaw))


def calls(session: Session, campaign_id: str) -> tuple[RecordedModelCall, ...]:
    """Return a campaign's calls in the order in which they began."""
    rows = session.scalars(
        select(CallRow)
        .where(CallRow.campaign_id == campaign_id)
        .order_by(CallRow.created_at, CallRow.ordinal)
    )
    return tuple(recorded_call(row) for row in rows)


def replies(session: Session, request_hash: str) -> tuple[RecordedModelCall, ...]:
    """Return every finished call with this request, in order: what a replay answers from."""
    rows = session.scalars(
        select(CallRow)
        .where(CallRow.request_hash == request_hash, CallRow.state == "finished")
        .order_by(CallRow.ordinal)
    )
    return tuple(recorded_call(row) for row in rows)


def spending(session: Session) -> dict[str, Spend]:
    """Return what the models were paid for each task; a call of unknown end at its worst."""
    query = select(CallRow.task_id, *SUMS).where(CallRow.task_id.is_not(None))
    rows = session.execute(query.group_by(CallRow.task_id))
    return {task: spend_of(*sums) for task, *sums in rows if task is not None}


def spend_of(
    calls: int | None,
    replayed: int | None,
    unbilled: int | None,
    tokens: int | None,
    most: int | None,
    known: int | None,
) -> Spend:
    """Read what `SUMS` add up to."""
    return Spend(
        calls=int(calls or 0),
        replayed_calls=int(replayed or 0),
        unbilled_calls=int(unbilled or 0),
        tokens=int(tokens or 0),
        microdollars=int(most or 0),
        known_microdollars=int(known or 0),
    )


def keep_lesson(session: Session, lesson: Lesson) -> None:
    """Write a lesson, or its new state and credit."""
    values = lesson.model_dump(exclude={"id", "evidence"})
    evidence = json.dumps(lesson.evidence)
    if not insert_once(
        session, LessonRow, id=lesson.id, evidence=evidence, created_at=now(), **values
    ):
        session.execute(
            update(LessonRow).where(LessonRow.id == lesson.id).values(evidence=evidence, **values)
        )


def credit_lesson(session: Session, lesson_id: str, *, helped: int, hurt: int) -> None:
    """Count verdicts for and against a lesson; whoever else counts at the same time is not lost."""
    session.execute(
        update(LessonRow)
        .where(LessonRow.id == lesson_id)
        .values(helped=LessonRow.helped + helped, hurt=LessonRow.hurt + hurt)
    )


def lessons(session: Session, signature: str | None) -> tuple[Lesson, ...]:
    """Return lessons, the most helpful first."""
    query = select(LessonRow).order_by((LessonRow.hurt - LessonRow.helped), LessonRow.created_at)
    if signature is not None:
        query = query.where(LessonRow.signature == signature)
    return tuple(
        Lesson.model_validate(
            {name: getattr(row, name) for name in Lesson.model_fields}
            | {"evidence": tuple(json.loads(row.evidence))}
        )
        for row in session.scalars(query)
    )


def keep_regression_case(
    session: Session, *, task_id: str, candidate_id: str | None, body: str
) -> str:
    """Keep an input that exposed a wrong program, once; return its id."""
    case_id = digest(task_id, body)
    insert_once(
        session,
        RegressionCaseRow,
        id=case_id,
        task_id=task_id,
        candidate_id=candidate_id,
        body=body,
        created_at=now(),
    )
    return case_id


def regression_cases(session: Session, task_id: str) -> tuple[str, ...]:
    """Return a task's regression cases, oldest first."""
    query = (
        select(RegressionCaseRow.body)
        .where(RegressionCaseRow.task_id == task_id)
        .order_by(RegressionCaseRow.created_at)
    )
    return tuple(session.scalars(query))


def recorded_call(row: CallRow) -> RecordedModelCall:
    """Read a call's row."""
    call = ModelCall.model_validate({n: getattr(row, n) for n in ModelCall.model_fields})
    if row.state == "begun":
        return RecordedModelCall(call=call, outcome=None, at=row.created_at)
    outcome = {name: getattr(row, name) for name in ModelOutcome.model_fields}
    told = ModelOutcome.model_validate(outcome)
    return RecordedModelCall(call=call, outcome=told, at=row.created_at)
