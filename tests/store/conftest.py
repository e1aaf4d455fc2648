"""A small task, programs for it and verdicts on them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from kernelwright.evaluator.evaluation import Evaluation, Samples, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.store import Campaign, Environment, KernelStore, NewTrial, Rank
from tests.conftest import execute_on

INFO = DeviceInfo(name="simulator", chip="test chip", runtime="test 1", measures_time=False)
ENVIRONMENT = Environment(device=INFO, mlx="0.32.4", system="Linux x86_64")


@pytest.fixture
def task() -> Task:
    return task_of((4, 8))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KernelStore]:
    """Open an empty store on every database that there is; the contract is the same."""
    url = str(tmp_path / "kernels.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    with KernelStore(url) as opened:
        yield opened


ON_SQLITE = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
"""For what a file alone can do."""


@pytest.fixture
def campaign(store: KernelStore) -> Campaign:
    return store.begin_campaign(name="evening", spec="{}", environment=ENVIRONMENT)


def task_of(shape: tuple[int, ...], *, name: str = "row_softmax", op: str = "softmax") -> Task:
    type_ = TensorType(shape, Dtype.FLOAT16)
    graph = Graph(
        types=(type_, type_),
        inputs=(0,),
        constants=(),
        nodes=(Node(op, (0,), (1,), (("precise", True),) if op == "softmax" else ()),),
        outputs=(1,),
    )
    return Task(graph, name)


def program_of(body: str) -> Program:
    tensor = ("x", Dtype.FLOAT16, (4, 8))
    return Program(
        inputs=(Tensor(name=tensor[0], dtype=tensor[1], shape=tensor[2]),),
        outputs=(Tensor(name="out", dtype=tensor[1], shape=tensor[2]),),
        kernels=(
            Kernel(
                name="k",
                inputs=("x",),
                outputs=("out",),
                source=body,
                grid=(32, 1, 1),
                threadgroup=(32, 1, 1),
            ),
        ),
    )


def verdict(
    task: Task, program: Program, *, status: Status = Status.CORRECT, samples: bool = False
) -> Evaluation:
    return Evaluation(
        task=task.fingerprint,
        program=program.id,
        device=INFO,
        status=status,
        summary="every output is right.",
        samples=(Samples(arm="candidate", nanoseconds=(1.5, 2.25, 1e9)),) if samples else (),
    )


Evaluate = Callable[..., str]


@pytest.fixture
def evaluate(store: KernelStore, campaign: Campaign, task: Task) -> Evaluate:
    """Take one program all the way: add a trial, lease, record; returns the candidate's id."""

    def run(
        body: str, *, cost: float | None = None, status: Status = Status.CORRECT, of: Task = task
    ) -> str:
        program = program_of(body)
        trial = store.add_trial(new_trial(campaign, of, program), signature=of.graph.nodes[0].op)
        assert store.lease(trial.id)
        rank = None if cost is None else Rank(kind="predicted", value=cost)
        found = verdict(of, program, status=status, samples=True)
        evaluation_id = store.record(trial.id, found, rank=rank)
        if rank is not None:
            store.promote(evaluation_id)
        return trial.candidate_id

    return run


def new_trial(
    campaign: Campaign, task: Task, program: Program, *, parent: str | None = None
) -> NewTrial:
    return NewTrial(
        campaign_id=campaign.id,
        task=task,
        program=program,
        author="offline",
        idea="one row per simdgroup",
        parent_program_id=parent,
    )


@contextmanager
def server_away(url: str) -> Iterator[None]:
    """End every connection to a database and refuse new ones, as a server that restarts does."""
    name = make_url(url).database
    other = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    execute_on(
        other,
        f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false',
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
    )
    try:
        yield
    finally:
        execute_on(other, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
