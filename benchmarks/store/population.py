"""Fills a store with a million evaluations by bulk inserts, past the store's own methods."""

import hashlib
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kernelwright.evaluator.evaluation import Evaluation, Stage, StageResult, Status
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import Environment, KernelStore

CHIPS = ("Apple M1 Max", "Apple M3 Pro", "Apple M4 Pro")
OPS = tuple(f"op_{i:02}" for i in range(60))
"""Drawn with weight 1/rank: a few are everywhere, most are rare."""
DTYPES = ("float16", "bfloat16", "float32")
EXTENTS = (1, 64, 100, 128, 512, 1000, 1024, 2048, 4096, 8192)
CHAMPIONS_PER_TASK = 2
_BATCH = 20_000
_CAMPAIGNS = 500

Row = tuple[object, ...]
_CHAMPION_WORDS = """
    INSERT INTO champion_word (task_id, device, chip, word, crowned_at, dtype, shapes)
    SELECT c.task_id, c.device, c.chip, w.word, c.crowned_at, t.dtype, t.shapes
    FROM champion AS c JOIN task AS t ON t.id = c.task_id
    JOIN (SELECT task_id, word FROM task_word UNION ALL SELECT id, '' FROM task) AS w
    ON w.task_id = c.task_id"""


@dataclass(frozen=True)
class Population:
    """How much a store is filled with."""

    evaluations: int
    evaluations_per_task: int = 50

    @property
    def tasks(self) -> int:
        """Number of tasks, each with as many candidates as evaluations."""
        return self.evaluations // self.evaluations_per_task


def fill(path: Path, population: Population) -> None:
    """Make a store at `path` that holds `population`; the same one every time."""
    KernelStore(str(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    for table, rows in _tables(population):
        while batch := list(islice(rows, _BATCH)):
            marks = ",".join("?" * len(batch[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", batch)
    connection.execute(_CHAMPION_WORDS)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _tables(population: Population) -> Iterator[tuple[str, Iterator[Row]]]:
    everything, tasks = range(population.evaluations), range(population.tasks)
    environments = [_environment(chip) for chip in CHIPS]
    yield "environment", iter([(e.id, "metal", e.device.chip, e.model_dump_json())
                               for e in environments])  # fmt: skip
    yield "campaign", (_campaign(i, environments[i % 3].id) for i in range(_CAMPAIGNS))
    yield "task", (_task(i) for i in tasks)
    yield "task_word", (row for i in tasks for row in _words(i))
    yield "program", ((_id("program", i), "x" * 400) for i in everything)
    yield "candidate", (_candidate(i, population) for i in everything)
    yield "evaluation", (_evaluation(i, population, environments) for i in everything)
    yield "trial", (_trial(i) for i in everything)
    yield "champion", (row for i in tasks for row in _champions(i, population, environments))


def _environment(chip: str) -> Environment:
    device = DeviceInfo(name="metal", chip=chip, runtime="Metal 4", measures_time=True)
    return Environment(device=device, mlx="0.32.4", system="Darwin arm64")


def _campaign(index: int, environment: str) -> Row:
    at = _moment(index * 1000)
    elapsed_s = 3600.0
    return (
        _id("campaign", index),
        "night",
        "finished",
        "{}",
        environment,
        "mac:1",
        at,
        at,
        at,
        elapsed_s,
        _id("campaign", index),
    )


def _task(index: int) -> Row:
    draw = random.Random(index)
    op, dtype = _op(draw), draw.choice(DTYPES)
    shapes = f"{dtype}[{draw.choice(EXTENTS)},{draw.choice(EXTENTS)}]"
    graph = Graph(types=(), inputs=(), constants=(), nodes=(), outputs=()).to_json()
    return (
        _id("task", index),
        f"{op}_{index}",
        op,
        dtype,
        shapes,
        graph * 8,
        _moment(index),
        _id("tuning", index),
    )


def _words(index: int) -> list[Row]:
    op = _op(random.Random(index))
    return [(word, _id("task", index)) for word in sorted({op, f"{op}_{index}", "multiply"})]


def _candidate(index: int, population: Population) -> Row:
    return (
        _id("candidate", index),
        _id("task", index // population.evaluations_per_task),
        _id("program", index),
        "offline",
        "one row per simdgroup",
        "rows=1 vector=4",
        None,
        _id("campaign", index % _CAMPAIGNS),
        _moment(index),
    )


_BODY = Evaluation(
    task="0" * 64,
    program="0" * 64,
    device=_environment(CHIPS[0]).device,
    status=Status.CORRECT,
    summary="every output is right.",
    stages=tuple(StageResult(stage=stage, passed=True, summary="holds") for stage in Stage),
).model_dump_json()


def _evaluation(index: int, population: Population, environments: list[Environment]) -> Row:
    return (
        _id("evaluation", index),
        _id("candidate", index),
        _id("task", index // population.evaluations_per_task),
        environments[index % 3].id,
        1,
        "metal",
        Status.CORRECT.value,
        Stage.CONFIRMATION.value,
        "every output is right.",
        "measured",
        float(index % 997),
        _BODY,
        1.5,
        _moment(index),
    )


def _trial(index: int) -> Row:
    return (
        _id("trial", index),
        _id("campaign", index % _CAMPAIGNS),
        _id("candidate", index),
        "done",
        1,
        None,
        None,
        _id("evaluation", index),
        0,
        _moment(index),
    )


def _champions(
    index: int, population: Population, environments: list[Environment]
) -> Iterator[Row]:
    for place in range(CHAMPIONS_PER_TASK):
        winner = index * population.evaluations_per_task + place
        environment = environments[(index + place) % 3]
        yield (
            _id("task", index),
            "metal",
            environment.device.chip,
            _id("candidate", winner),
            _id("evaluation", winner),
            environment.id,
            "fresh",
            "measured",
            float(index % 997),
            _moment(winner),
            *[1.5, 1.4, 1.6, "measured", "compile"],
        )


def _op(draw: random.Random) -> str:
    return draw.choices(OPS, weights=[1 / (rank + 1) for rank in range(len(OPS))])[0]


def _id(kind: str, index: int) -> str:
    return hashlib.sha256(f"{kind}{index}".encode()).hexdigest()


def _moment(index: int) -> str:
    seconds = index * 7
    days, rest = divmod(seconds, 86400)
    month, day = divmod(days, 28)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{2025 + month // 12}-{month % 12 + 1:02}-{day + 1:02} {clock}.000000"
