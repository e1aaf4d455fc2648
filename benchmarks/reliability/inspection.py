"""What must hold of a store after a campaign, whatever happened on the way."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

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
    problems: tuple[str, ...]


def inspect(order: Order, account: Account) -> Finding:
    """Compare a store with what its process saw and what the server did."""
    with closing(sqlite3.connect(order.store)) as db:
        ok = db.execute("PRAGMA integrity_check").fetchone()[0]
        problems = [] if ok == "ok" else [f"the store is damaged: {ok}"]
        problems += _evaluations(db, order.journal)
        problems += _replies(db, account)
        problems += _caps(db, order, account)
        calls = db.execute("SELECT count(*) FROM call").fetchone()[0]
        lost = db.execute("SELECT count(*) FROM call WHERE state = 'begun'").fetchone()[0]
        return Finding(
            champions=tuple(_champions(db)),
            evaluations=db.execute("SELECT count(*) FROM evaluation").fetchone()[0],
            calls=calls,
            lost_calls=lost,
            spent_dollars=_spent(db),
            problems=tuple(problems),
        )


def has_finished(order: Order) -> bool:
    """Say whether a campaign's last run came to its end, as `campaign resume` finds out."""
    if not order.store.exists():
        return False
    with closing(sqlite3.connect(order.store)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'campaign'").fetchone()[
            0
        ]:
            return False
        newest = db.execute("SELECT state FROM campaign ORDER BY started_at DESC").fetchone()
        return newest is not None and newest[0] in ("finished", "capped")


def _champions(db: sqlite3.Connection) -> Iterator[Champion]:
    rows = db.execute("""
        SELECT task.name, candidate.program_id, champion.rank_value FROM champion
        JOIN candidate ON candidate.id = champion.candidate_id
        JOIN task ON task.id = champion.task_id ORDER BY task.name""")
    return (Champion(*row) for row in rows)


def _evaluations(db: sqlite3.Connection, journal: Path) -> Iterator[str]:
    """Find verdicts that were acknowledged and are gone, and those that are there twice."""
    stored = Counter[tuple[str, bool]]()
    for candidate, body in db.execute("SELECT candidate_id, body FROM evaluation"):
        stages = {stage["stage"] for stage in json.loads(body)["stages"]}
        stored[candidate, Stage.HIDDEN in stages] += 1
    seen = set()
    for line in journal.read_text().splitlines() if journal.exists() else ():
        kind, candidate = json.loads(line)
        seen.add((candidate, kind == "CandidateConfirmed"))
    yield from (f"evaluation of {c[:8]} lost" for c, confirms in seen
                if not stored[c, confirms] and not (not confirms and stored[c, True]))  # fmt: skip
    yield from (f"{n} evaluations of {c[:8]}" for (c, _), n in stored.items() if n > 1)
    undone = db.execute("""
        SELECT count(*) FROM trial WHERE state = 'done' AND evaluation_id IS NULL""").fetchone()[0]
    if undone:
        yield f"{undone} trials are done and have no evaluation"


def _replies(db: sqlite3.Connection, account: Account) -> Iterator[str]:
    """Find requests whose recorded reply was asked for again, and replies nobody accounts for."""
    rows = db.execute("""
        SELECT request_hash, sum(state = 'finished'), count(*) FROM call GROUP BY request_hash""")
    for request, finished, sent in rows:
        if finished > 1:
            yield f"{finished} of {sent} replies to one request ({request[:8]}) were recorded"
    served, paid = account.served.total(), db.execute("SELECT count(*) FROM call").fetchone()[0]
    if served > paid:
        yield f"the server gave {served} replies, the store knows of {paid} calls"


def _caps(db: sqlite3.Connection, order: Order, account: Account) -> Iterator[str]:
    caps = order.caps
    if caps.dollars is not None and _spent(db) > caps.dollars:
        yield f"${_spent(db):.4f} of ${caps.dollars:.2f} spent"
    calls = db.execute("SELECT count(*) FROM call").fetchone()[0]
    if caps.calls is not None and calls > caps.calls:
        yield f"{calls} calls of {caps.calls}"
    if account.billed_tokens > _tokens(db):
        yield f"the server bills {account.billed_tokens} tokens, the store counts {_tokens(db)}"
    run = db.execute("""
        SELECT count(*) FROM trial WHERE reused = 0 AND state <> 'intended'""").fetchone()[0]
    if order.evaluations is not None and run > order.evaluations:
        yield f"{run} evaluations of {order.evaluations}"


def _spent(db: sqlite3.Connection) -> float:
    """Add up what calls took; one of unknown end at its worst."""
    (micro,) = db.execute("""
        SELECT coalesce(sum(CASE state WHEN 'begun' THEN reserved_microdollars
                            ELSE cost_microdollars END), 0) FROM call""").fetchone()
    return float(micro) / 1e6


def _tokens(db: sqlite3.Connection) -> int:
    """Add up tokens as the budget does: at their worst where nobody learnt them."""
    total = 0
    for state, request, reply in db.execute("SELECT state, request, reply FROM call"):
        if state == "begun":
            total += Call.model_validate_json(request).worst.tokens
        else:
            total += json.loads(reply)["cost"]["tokens"]
    return total
