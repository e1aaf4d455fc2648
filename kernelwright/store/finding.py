"""Keeps the words by which champions are found."""

from sqlalchemy import delete, func, insert, literal, select, union_all
from sqlalchemy.orm import Session

from kernelwright.store.schema import (
    EVERY,
    LONGEST_INDEXED_SHAPES,
    ChampionRow,
    ChampionWordRow,
    TaskRow,
    TaskWordRow,
)


def index_champion(session: Session, champion: ChampionRow) -> None:
    """Write a champion's words anew, with when it was promoted."""
    session.flush()
    session.execute(
        delete(ChampionWordRow).where(
            ChampionWordRow.task_id == champion.task_id,
            ChampionWordRow.device == champion.device,
            ChampionWordRow.chip == champion.chip,
        )
    )
    words = union_all(
        select(TaskWordRow.word).where(TaskWordRow.task_id == champion.task_id),
        select(literal(EVERY)),
    ).subquery()
    rows = (
        select(
            ChampionRow.task_id,
            ChampionRow.device,
            ChampionRow.chip,
            words.c.word,
            ChampionRow.crowned_at,
            TaskRow.dtype,
            func.substr(TaskRow.shapes, 1, LONGEST_INDEXED_SHAPES),
        )
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(words, literal(True))
        .where(
            ChampionRow.task_id == champion.task_id,
            ChampionRow.device == champion.device,
            ChampionRow.chip == champion.chip,
        )
    )
    columns = ["task_id", "device", "chip", "word", "crowned_at", "dtype", "shapes"]
    session.execute(insert(ChampionWordRow).from_select(columns, rows))
