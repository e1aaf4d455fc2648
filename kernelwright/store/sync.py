"""Shares champions between two stores: each gets those that the other has and it does not."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.store.commands.champion import promote
from kernelwright.store.schema import (
    Base,
    CampaignRow,
    CandidateRow,
    ChampionRow,
    EnvironmentRow,
    EvaluationRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TaskWordRow,
)
from kernelwright.store.upsert import insert_once

_SHARED = "champions of other stores"
"""The run to which a store counts candidates that it has from others."""


class Synced(Record):
    """What went from one store to another."""

    source: str
    target: str
    copied: tuple[str, ...]
    """Candidates that lead in the target now."""
    behind: int
    """Verified champions of the source that lead nothing in the target."""
    unproven: int
    """Champions that are not fresh, or that another evaluator judged: verify them first."""


@dataclass(frozen=True)
class SharedChampion:
    """A verified champion with every row that it rests on, the ones they refer to first."""

    candidate_id: str
    evaluation_id: str
    environment_id: str
    judged_at: datetime
    rows: tuple[tuple[type[Base], dict[str, object]], ...]


def shared_champions(
    session: Session, *, device: DeviceName | None, chip: str | None
) -> tuple[list[SharedChampion], int]:
    """Return the verified champions of a device and a chip, and how many others there are."""
    query = (
        select(ChampionRow, EvaluationRow)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .order_by(ChampionRow.crowned_at, ChampionRow.task_id)
    )
    if device is not None:
        query = query.where(ChampionRow.device == device)
    if chip is not None:
        query = query.where(ChampionRow.chip == chip)
    found, unproven = [], 0
    for champion, verdict in session.execute(query):
        if champion.state != "fresh" or verdict.evaluator_version != EVALUATOR_VERSION:
            unproven += 1
            continue
        found.append(
            SharedChampion(
                champion.candidate_id,
                verdict.id,
                verdict.environment_id,
                verdict.created_at,
                tuple(_rows(session, verdict)),
            )
        )
    return found, unproven


def take_champion(session: Session, shared: SharedChampion) -> bool:
    """Write a champion and what it rests on; True when it leads its task on its chip now."""
    rows = [row for row in shared.rows if row[0] is EnvironmentRow]
    rows += [(CampaignRow, _shared_run(shared))]
    rows += [row for row in shared.rows if row[0] is not EnvironmentRow]
    for table, values in rows:
        own = {"campaign_id": _run_id(shared.environment_id)} if table is CandidateRow else {}
        insert_once(session, table, **values, **own)
    session.flush()
    before = _leader(session, shared)
    promote(session, shared.evaluation_id)
    session.flush()
    return _leader(session, shared) != before


def _rows(
    session: Session, verdict: EvaluationRow
) -> Iterator[tuple[type[Base], dict[str, object]]]:
    candidate = session.get_one(CandidateRow, verdict.candidate_id)
    yield EnvironmentRow, _values(session.get_one(EnvironmentRow, verdict.environment_id))
    yield TaskRow, _values(session.get_one(TaskRow, verdict.task_id))
    for word in session.scalars(select(TaskWordRow).where(TaskWordRow.task_id == verdict.task_id)):
        yield TaskWordRow, _values(word)
    yield ProgramRow, _values(session.get_one(ProgramRow, candidate.program_id))
    kept = _values(candidate)
    del kept["campaign_id"]
    yield CandidateRow, kept
    yield EvaluationRow, _values(verdict)
    for samples in session.scalars(
        select(SampleSetRow).where(SampleSetRow.evaluation_id == verdict.id)
    ):
        yield SampleSetRow, _values(samples)


def _values(row: Base) -> dict[str, object]:
    return {column.key: getattr(row, column.key) for column in inspect(type(row)).column_attrs}


def _run_id(environment_id: str) -> str:
    return digest(_SHARED, environment_id)


def _shared_run(shared: SharedChampion) -> dict[str, object]:
    """Return the run of what came from elsewhere; it is as old as its first verdict, not new."""
    run_id, moment = _run_id(shared.environment_id), shared.judged_at
    return {
        "id": run_id,
        "root_id": run_id,
        "name": _SHARED,
        "state": "finished",
        "spec": "{}",
        "environment_id": shared.environment_id,
        "owner": "sync",
        "started_at": moment,
        "heartbeat_at": moment,
        "ended_at": moment,
        "elapsed_s": 0.0,
    }


def _leader(session: Session, shared: SharedChampion) -> tuple[str, str] | None:
    verdict = session.get_one(EvaluationRow, shared.evaluation_id)
    environment = session.get_one(EnvironmentRow, verdict.environment_id)
    row = session.execute(
        select(ChampionRow.candidate_id, ChampionRow.evaluation_id).where(
            ChampionRow.task_id == verdict.task_id,
            ChampionRow.device == verdict.device,
            ChampionRow.chip == environment.chip,
        )
    ).first()
    return None if row is None else (row[0], row[1])
