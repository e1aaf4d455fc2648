"""Tasks, and the words by which they are found."""

import re

from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.evaluator.task import Task
from kernelwright.store.clock import now
from kernelwright.store.schema import (
    TaskRow,
    TaskWordRow,
)
from kernelwright.store.upsert import insert_once


def add_task(session: Session, task: Task, signature: str) -> str:
    """Add the task unless its fingerprint is known; return it.

    A region that its function calls otherwise now goes by the new name, and keeps how the
    function takes and returns arrays now.
    """
    known = session.get(TaskRow, task.fingerprint)
    if known is not None:
        if known.name.partition("/")[0] == _function(task):
            _describe(session, known, task, signature)
        return task.fingerprint
    types = task.graph.output_types or task.graph.input_types
    shapes = ", ".join(map(str, task.graph.input_types))
    is_new = insert_once(
        session,
        TaskRow,
        id=task.fingerprint,
        name=task.name,
        signature=signature,
        dtype=types[0].dtype.value,
        shapes=shapes,
        tuning_key=digest(signature, shapes),
        graph=task.graph.to_json(),
        created_at=now(),
    )
    if is_new:
        _add_words(session, task, signature)
        session.flush()
    return task.fingerprint


def _describe(session: Session, known: TaskRow, task: Task, signature: str) -> None:
    """Let a known task go by what its function calls and makes of it now."""
    if known.name != task.name:
        known.name = task.name
        _add_words(session, task, signature)
    graph = task.graph.to_json()
    if known.graph != graph:
        known.graph = graph


def _function(task: Task) -> str:
    return task.name.partition("/")[0]


def _add_words(session: Session, task: Task, signature: str) -> None:
    words = words_of({node.op for node in task.graph.nodes} | {task.name, signature})
    for word in sorted(words):
        insert_once(session, TaskWordRow, word=word, task_id=task.fingerprint)


def words_of(texts: set[str]) -> set[str]:
    """Return the lower-case words by which a task is found, whole names among them."""
    whole = {text.lower()[:200] for text in texts if text}
    return whole | {word for text in whole for word in re.split(r"[^a-z0-9_]+", text) if word}
