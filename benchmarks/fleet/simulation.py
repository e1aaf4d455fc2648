"""A large fleet simulated: the real search, measured costs of a real store, workers that wait.

A campaign hands jobs to workers and records their verdicts. Its own work for a candidate is
serial: asking and telling the search, and its transactions. Workers evaluate side by side.
"""

import asyncio
import heapq
import json
import os
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import median

from procrastinate.jobs import Status as JobStatus

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.campaign.fleet.job import FleetJob, FleetVerdict, job_id
from kernelwright.campaign.fleet.job_queue import TASK, prepare_queue, queue_app
from kernelwright.campaign.judging.job import TaskText
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.search import Search, Suggestion
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import RepairThenWrite, Team
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Environment, KernelStore, NewEvent, NewTrial, Rank

DEVICE = DeviceInfo(name="simulator", chip="m4-pro", runtime="simulated", measures_time=False)
_SEARCHED, _PER_TASK = 4000, 100
EVALUATION_S = 4.0
"""What the judge takes for a small candidate, by docs/reliability.md's machine when idle."""
CONNECTIONS_EACH = 3
"""Of a worker: Procrastinate's pool and its listener, and the store's."""
_BUSY = 0.9
"""The share of workers' time from which on it is they who are waited for."""
DEFAULT_CONNECTIONS = 100
"""PostgreSQL's max_connections as it comes."""


class Costs(Record):
    """Seconds of a campaign's own work for a candidate, and of the database for a worker's."""

    intend_s: float
    hand_s: float
    collect_s: float
    record_s: float
    worker_s: float
    """Fetch, begin, verdict and end of a job, as a worker's transactions take."""

    @property
    def campaign_s(self) -> float:
        """All of the campaign's transactions for one candidate."""
        return self.intend_s + self.hand_s + self.collect_s + self.record_s


class Outcome(Record):
    """One simulated campaign."""

    workers: int
    candidates: int
    hours: float
    per_s: float
    """Candidates evaluated in a second."""
    busy: float
    """The share of the workers' time that went into evaluations."""
    limit: str
    """What everything else waited for."""


class _Coder:
    """Proposes numbered programs without end."""

    def __init__(self) -> None:
        self._numbers = count()

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        return [_proposal(task, next(self._numbers)) for _ in range(count)]

    def plan(self, graph: Graph, device: DeviceInfo) -> None:
        return None

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        return None


def time_search(candidates: int, per_task: int, workers: int) -> float:
    """Return the processor time that the real search takes for a candidate, asked and told."""
    tasks = [TaskSearch(_task(i), "softmax") for i in range(-(-candidates // per_task))]
    coder = _Coder()
    team = Team(planner=coder, coder=coder, repairer=coder)  # type: ignore[arg-type]
    spec = SearchSpec(candidates_per_task=per_task, patience=per_task, batch=4)
    search = Search(tasks, RepairThenWrite(team, DEVICE, spec), DEVICE)
    flying = deque[Suggestion]()
    done, begun = 0, time.process_time()
    while True:
        flying += search.ask(workers - len(flying))
        if not flying:
            return (time.process_time() - begun) / done
        one = flying.popleft()
        search.tell(one, _verdict(one, done))
        done += 1


def simulate(workers: int, candidates: int, costs: Costs, search_s: float) -> Outcome:
    """Let a campaign serve workers, one transaction after the other, until all is evaluated."""
    flying: list[float] = []
    handed, now_s = 0, 0.0
    while handed < candidates or flying:
        if handed < candidates and len(flying) < workers:
            now_s += search_s / 2 + costs.intend_s + costs.hand_s
            heapq.heappush(flying, now_s + costs.worker_s + EVALUATION_S)
            handed += 1
            continue
        now_s = max(now_s, heapq.heappop(flying))
        now_s += search_s / 2 + costs.collect_s + costs.record_s
    busy = candidates * EVALUATION_S / (now_s * workers)
    return Outcome(
        workers=workers,
        candidates=candidates,
        hours=now_s / 3600,
        per_s=candidates / now_s,
        busy=busy,
        limit="workers" if busy > _BUSY else _limit(costs, search_s),
    )


def _limit(costs: Costs, search_s: float) -> str:
    return "the search" if search_s > costs.campaign_s else "the campaign's transactions"


def _task(number: int) -> Task:
    type_ = TensorType((4, 8 * (number + 1)), Dtype.FLOAT16)
    graph = Graph(
        types=(type_, type_),
        inputs=(0,),
        constants=(),
        nodes=(Node("softmax", (0,), (1,), (("axis", -1),)),),
        outputs=(1,),
    )
    return Task(graph, f"t{number}")


def _proposal(task: Task, number: int) -> Proposal:
    out = task.graph.output_types[0]
    kernel = Kernel(
        name="k",
        inputs=(),
        outputs=("out",),
        source=str(number),
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
    )
    program = Program(
        inputs=(),
        outputs=(Tensor(name="out", dtype=out.dtype, shape=out.shape),),
        kernels=(kernel,),
    )
    return Proposal(program=program, author="simulated", idea="", schedule=str(number))


def _verdict(one: Suggestion, number: int) -> Evaluation:
    return Evaluation(
        task=one.search.task.fingerprint,
        program=one.proposal.program.id,
        device=DEVICE,
        status=Status.CORRECT if number % 3 else Status.WRONG,
        summary="",
        predicted_us=1.0 + (number * 2654435761 % 1000) / 10,
        duration_s=EVALUATION_S,
    )


def measure_costs(url: str, jobs: int) -> Costs:
    """Time the transactions of a candidate on a real PostgreSQL, one process after the other."""
    environment = Environment(device=DEVICE, mlx="0", system="simulated")
    event = NewEvent("CandidateJudged", "{}")
    task, config = _task(0), EvaluatorConfig()
    spent: dict[str, list[float]] = defaultdict(list)

    async def run(store: KernelStore) -> None:
        run = store.begin_campaign(name="costs", spec="{}", environment=environment)
        async with queue_app(url).open_async() as app:
            worker = await app.job_manager.register_worker()
            for number in range(jobs):
                proposal = _proposal(task, number)
                with _timed(spent, "intend"):
                    new_trial = NewTrial(run.id, task, proposal.program, "simulated", "")
                    trial = store.add_trial(new_trial, event=event)
                    store.known(task.fingerprint, proposal.program.id, environment,
                                evaluator_version=1)  # fmt: skip
                    store.lease(trial.id, duration=timedelta(minutes=10))
                id_ = job_id("q", task, proposal.program, confirms=False)
                with _timed(spent, "hand"):
                    store.dialogue.regression_cases(task.fingerprint)
                    tried = store.tried(task.fingerprint)
                    job = FleetJob(
                        id=id_,
                        version="1",
                        task=TaskText.of(task),
                        program=proposal.program,
                        config=config,
                        tried=tried,
                    )
                    store.fleet.hand(id_)
                    deferrer = app.configure_task(name=TASK, queue="q", queueing_lock=id_)
                    queued = await deferrer.defer_async(job=job.model_dump(mode="json"))
                    store.fleet.queued(id_, queued)
                verdict = FleetVerdict(
                    environment=environment,
                    worker="w",
                    evaluation=_verdict(Suggestion(TaskSearch(task, ""), proposal), number),
                )
                with _timed(spent, "worker"):
                    fetched = await app.job_manager.fetch_job(["q"], worker)
                    assert fetched is not None
                    store.fleet.began(id_, "w")
                    store.fleet.finish(id_, verdict.model_dump_json())
                    await app.job_manager.finish_job(
                        fetched, status=JobStatus.SUCCEEDED, delete_job=True
                    )
                with _timed(spent, "collect"):
                    store.fleet.collect([id_])
                assert verdict.evaluation is not None
                with _timed(spent, "record"):
                    store.record(
                        trial.id,
                        verdict.evaluation,
                        rank=Rank(kind="predicted", value=1.0),
                        environment=environment,
                        event=event,
                    )

    with KernelStore(url) as store:
        prepare_queue(url)
        asyncio.run(run(store))
    return Costs.model_validate({f"{name}_s": median(times) for name, times in spent.items()})


@contextmanager
def _timed(spent: dict[str, list[float]], name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    spent[name].append(time.perf_counter() - begun)


def report(url: str, workers: int, candidates: int, path: Path | None) -> str:
    """Simulate fleets up to `workers`, and say what limits each."""
    costs = measure_costs(url, 200)
    sizes = sorted({10, 33, 100, 300, workers})
    search_s = time_search(_SEARCHED, _PER_TASK, workers)
    found = [simulate(n, candidates, costs, search_s) for n in sizes]
    connections = DEFAULT_CONNECTIONS // CONNECTIONS_EACH
    ms = {name: f"{1e3 * seconds:.1f}" for name, seconds in costs.model_dump().items()}
    command = f"simulate --workers {workers} --candidates {candidates} --write"
    lines = [
        f"A campaign of {candidates:,} candidates, {EVALUATION_S:g} s an evaluation, on fleets of",
        f"10 to {workers:,} workers that only wait. The store's transactions were timed on a real",
        "PostgreSQL of this machine, the median of 200; the search is the real one, over",
        f"{_SEARCHED:,} candidates of {_SEARCHED // _PER_TASK} tasks, in processor time.",
        f"Load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores: an idle machine is faster.",
        f"`python -m benchmarks.fleet {command}`",
        "",
        "| for each candidate | ms |",
        "|---|---:|",
        f"| the search: asked and told | {1e3 * search_s:.1f} |",
        f"| the campaign: intend, lease, look for a known verdict | {ms['intend_s']} |",
        f"| the campaign: hand over (cases, job, queue) | {ms['hand_s']} |",
        f"| the campaign: collect the verdict | {ms['collect_s']} |",
        f"| the campaign: record it | {ms['record_s']} |",
        f"| a worker: fetch, begin, verdict, end | {ms['worker_s']} |",
        "",
        f"Connections run out at worker {connections + 1}: each holds about {CONNECTIONS_EACH},",
        f"and PostgreSQL has {DEFAULT_CONNECTIONS} as it comes. {workers:,} workers want",
        f"`max_connections` above {workers * CONNECTIONS_EACH:,}, or a pooler.",
        "",
        "| workers | hours | candidates a second | workers busy | waits for |",
        "|---:|---:|---:|---:|---|",
    ]
    lines += [
        f"| {o.workers:,} | {o.hours:,.1f} | {o.per_s:.1f} | {o.busy:.0%} | {o.limit} |"
        for o in found
    ]
    text, runs = "\n".join(lines), [o.model_dump() for o in found]
    if path is not None:
        path.with_suffix(".md").write_text(text + "\n")
        figures = {"costs": costs.model_dump(), "search_s": search_s, "runs": runs}
        path.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
        _plot(found, path.with_suffix(".svg"))
    return text


def _plot(found: Sequence[Outcome], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kernelwright"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6))
    counts = [o.workers for o in found]
    axes.plot(counts, [n / EVALUATION_S for n in counts], "--", color="grey", label="workers alone")
    axes.plot(counts, [o.per_s for o in found], marker="o", label="with their campaign")
    limit = DEFAULT_CONNECTIONS // CONNECTIONS_EACH
    axes.axvline(limit, color="firebrick", linewidth=1, label="PostgreSQL's usual connections")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("workers")
    axes.set_ylabel("candidates a second")
    axes.set_title(f"{found[0].candidates:,} candidates, {EVALUATION_S:g} s each, simulated")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
