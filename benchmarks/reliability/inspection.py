"""What must hold of a store after a campaign, whatever happened on the way."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, create_engine, text
from sqlalchemy import inspect as inspected

from benchmarks.reliability.life import Order
from benchmarks.reliability.served import Account
from kernelwright.agents.session import Call
from kernelwright.evaluator import Stage


@dataclass(frozen=True)
class Champion:
    """What one task ended with."""

    task: str
    program: str
    rank: float


@dataclass(frozen=True)
class Finding:
    """What one campaign left behind."""

    champions: tuple[Champion, ...]
    evaluations: int
    calls: int
    lost_calls: int
    """Calls whose process died before it heard the reply; they count at their worst."""
    spent_dollars: float
    repeated: int
    """Evaluations that were done again, those of programs that models tried out among them."""
    problems: tuple[str, ...]


def inspect(order: Order, account: Account) -> Finding:
    """Compare a store with what its process saw and what the server did."""
    with _reading(order) as db:
        problems = _damages(db)
        problems += _evaluations(db, order.journal)
        problems += _replies(db, account)
        problems += _caps(db, order, account)
        calls = _count(db, "SELECT count(*) FROM call")
        lost = _count(db, "SELECT count(*) FROM call WHERE state = 'begun'")
        return Finding(
            champions=tuple(_champions(db)),
            evaluations=_count(db, "SELECT count(*) FROM evaluation"),
            calls=calls,
            lost_calls=lost,
            spent_dollars=_spent(db),
            repeated=_repeated(order.work),
            problems=tuple(problems),
        )


def has_finished(order: Order) -> bool:
    """Say whether a campaign's last run came to its end, as `campaign resume` finds out."""
    return ended_as(order) in ("finished", "capped")


def ended_as(order: Order) -> str:
    """Return the state of a campaign's last run; nothing where none has begun."""
    with _reading(order) as db:
        if not inspected(db).has_table("campaign"):
            return ""
        return db.scalar(text("SELECT state FROM campaign ORDER BY started_at DESC")) or ""


@contextmanager
def _reading(order: Order) -> Iterator[Connection]:
    url = order.url if "://" in order.url else f"sqlite:///{order.url}"
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _count(db: Connection, query: str) -> int:
    return int(db.scalar(text(query)) or 0)


def _damages(db: Connection) -> list[str]:
    if db.dialect.name != "sqlite":
        return []
    ok = db.exec_driver_sql("PRAGMA integrity_check").scalar_one()
    return [] if ok == "ok" else [f"the store is damaged: {ok}"]


def _repeated(work: Path) -> int:
    done = Counter(work.read_text().splitlines()) if work.exists() else Counter[str]()
    return sum(count - 1 for count in done.values())


def _champions(db: Connection) -> Iterator[Champion]:
    rows = db.execute(
        text("""
        SELECT task.name, candidate.program_id, champion.rank_value FROM champion
        JOIN candidate ON candidate.id = champion.candidate_id
        JOIN task ON task.id = champion.task_id ORDER BY task.name""")
    )
    return (Champion(*row) for row in rows)


def _evaluations(db: Connection, journal: Path) -> Iterator[str]:
    """Find verdicts that were acknowledged and are gone, and those that are there twice."""
    stored = Counter[tuple[str, bool]]()
    for candidate, body in db.execute(text("SELECT candidate_id, body FROM evaluation")):
        stages = {stage["stage"] for stage in json.loads(body)["stages"]}
        stored[candidate, Stage.HIDDEN in stages] += 1
    seen = set()
    for line in journal.read_text().splitlines() if journal.exists() else ():
        kind, candidate = json.loads(line)
        seen.add((candidate, kind == "CandidateConfirmed"))
    yield from (f"evaluation of {c[:8]} lost" for c, confirms in seen
                if not stored[c, confirms] and not (not confirms and stored[c, True]))  # fmt: skip
    yield from (f"{n} evaluations of {c[:8]}" for (c, _), n in stored.items() if n > 1)
    undone = _count(db, "SELECT count(*) FROM trial WHERE state = 'done' AND evaluation_id IS NULL")
    if undone:
        yield f"{undone} trials are done and have no evaluation"


def _replies(db: Connection, account: Account) -> Iterator[str]:
    """Find requests whose recorded reply was asked for again, and replies nobody accounts for."""
    rows = db.execute(
        text("""
        SELECT request_hash, count(*) FILTER (WHERE state = 'finished'), count(*)
        FROM call GROUP BY request_hash""")
    )
    for request, finished, sent in rows:
        if finished > 1:
            yield f"{finished} of {sent} replies to one request ({request[:8]}) were recorded"
    served, paid = account.served.total(), _count(db, "SELECT count(*) FROM call")
    if served > paid:
        yield f"the server gave {served} replies, the store knows of {paid} calls"


def _caps(db: Connection, order: Order, account: Account) -> Iterator[str]:
    caps = order.caps
    if caps.dollars is not None and _spent(db) > caps.dollars:
        yield f"${_spent(db):.4f} of ${caps.dollars:.2f} spent"
    calls = _count(db, "SELECT count(*) FROM call")
    if caps.calls is not None and calls > caps.calls:
        yield f"{calls} calls of {caps.calls}"
    if account.billed_tokens > _tokens(db):
        yield f"the server bills {account.billed_tokens} tokens, the store counts {_tokens(db)}"
    run = _count(db, "SELECT count(*) FROM trial WHERE NOT reused AND state <> 'intended'")
    if order.evaluations is not None and run > order.evaluations:
        yield f"{run} evaluations of {order.evaluations}"


def _spent(db: Connection) -> float:
    """Add up what calls took; one of unknown end at its worst."""
    micro = _count(
        db,
        """
        SELECT coalesce(sum(CASE state WHEN 'begun' THEN reserved_microdollars
                            ELSE cost_microdollars END), 0) FROM call""",
    )
    return micro / 1e6


def _tokens(db: Connection) -> int:
    """Add up tokens as the budget does: at their worst where nobody learnt them."""
    total = 0
    for state, request, reply in db.execute(text("SELECT state, request, reply FROM call")):
        if state == "begun":
            total += Call.model_validate_json(request).worst.tokens
        else:
            total += json.loads(reply)["cost"]["tokens"]
    return total
