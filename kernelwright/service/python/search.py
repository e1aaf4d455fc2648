"""`kernelwright.search`: the engine of the command line, for programs and notebooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelwright.agents.protocols import Plan, Planner
from kernelwright.campaign import (
    Captured,
    Engine,
    RepairThenWrite,
    SearchReport,
    SearchSpec,
    offline_team,
)
from kernelwright.campaign.event import Event, ModelRemarked
from kernelwright.campaign.execution.executor import Executor
from kernelwright.campaign.execution.job_choice import choose_jobs, this_host
from kernelwright.campaign.execution.retry_policy import USUAL_CARE, DeviceCare
from kernelwright.campaign.execution.run_settings import CampaignTeam, RunSettings, TeamFactory
from kernelwright.campaign.fleet.evaluators import evaluators_for
from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.history.resuming import StopWatch
from kernelwright.campaign.planning.capturing import FunctionPlan, plan_function
from kernelwright.campaign.planning.forecast import forecast, size_warning
from kernelwright.campaign.report.known_champions import known_gains
from kernelwright.campaign.spec.input_value import Inputs
from kernelwright.campaign.team.model_team import open_team
from kernelwright.ir import Graph
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo
from kernelwright.public_call import in_python, one_sentence
from kernelwright.search.priority import SecondsToSave
from kernelwright.service.interruption import ending_in_order
from kernelwright.service.python.plan import plan_result
from kernelwright.service.python.progress import Progress, follow
from kernelwright.service.python.request import (
    DeviceChoice,
    chip_of,
    refuse_idle,
    search_spec,
    store_of,
)
from kernelwright.service.python.result import SearchResult
from kernelwright.service.python.target import Target, captured
from kernelwright.service.view.progress import ProgressView
from kernelwright.settings import current_settings
from kernelwright.store import KernelStore


@one_sentence
def search(
    target: Target | Sequence[Target],
    *,
    inputs: Inputs | None = None,
    device: DeviceChoice = "auto",
    model: str | Sequence[str] | None = None,
    budget: float | None = None,
    tokens: int | None = None,
    calls: int | None = None,
    candidates: int | None = None,
    repairs: int | None = None,
    evaluations: int | None = None,
    seconds: float | None = None,
    jobs: int | None = None,
    base_url: str | None = None,
    chip: str | None = None,
    threadgroup_memory: int | str = METAL_THREADGROUP_BYTES,
    store: str | Path | None = None,
    progress: Progress | bool = "auto",
) -> SearchResult:
    """Plan, write, repair, evaluate and record kernels for functions; return what was found.

    Everything is in the store as soon as it is known. Ctrl-C, or interrupting a notebook's
    kernel, ends the search in order, and what was found is returned; a second one raises
    `KeyboardInterrupt` at once. The same search called again goes on from there.

    Args:
        target: a function, a method or an object that is called, or `"FILE.py:function"`,
            `"FILE.py"`, `"package.module:function"` or `"catalog:NAME"`; or several of them.
        inputs: arrays, types such as `"f16[8,512]"` and plain values in the order of the
            parameters, or a mapping by their names; by default those of `@kernelwright.example`,
            or of earlier searches.
            Of arrays only shapes and dtypes count.
        device: `auto`, the best that this machine has, or `metal`, `cuda`, `simulator`.
        model: whom to ask, such as `"anthropic:NAME"`, `"openai:NAME"` or `"replay:CAMPAIGN"`;
            several step in for one another. By default none: the offline team writes.
        budget: the most dollars that models may cost.
        tokens: the most tokens that models may use.
        calls: the most calls to models.
        candidates: the most candidates to try for a task; 12 by default.
        repairs: how often a failed program is repaired; 2 by default.
        evaluations: stop after so many evaluations.
        seconds: stop after so many seconds.
        jobs: candidates to evaluate at once; by the machine's cores and memory by default.
        base_url: where the models are served, such as `http://127.0.0.1:8080/v1`.
        chip: whose times are predicted, and on the simulator whose schedules are tried, such as
            `m4-pro`.
        threadgroup_memory: what a threadgroup may take, in bytes or such as `"96K"`.
        store: a path or SQLAlchemy URL; the default store otherwise.
        progress: `auto`, `live`, `lines`, `notebook`, or `none` and `False` for silence.

    Raises:
        InputError: an argument is wrong, or MLX cannot trace a function.
        UnsupportedError: a function computes what no graph can hold.
        DeviceError: the device does not open.
        StoreError: the store cannot be opened or written.
        ModelError: a model's key or name is missing or wrong.
    """
    spec = search_spec(
        device=device,
        model=model,
        budget=budget,
        tokens=tokens,
        calls=calls,
        candidates=candidates,
        repairs=repairs,
        evaluations=evaluations,
        seconds=seconds,
        jobs=jobs,
        base_url=base_url,
        chip=chip,
        threadgroup_memory=threadgroup_memory,
    )
    refuse_idle(model, budget=budget, tokens=tokens, calls=calls, base_url=base_url)
    url, of, view = store_of(store), chip_of(chip), follow(progress, spec.candidates_per_task)
    functions = captured(target, inputs, url)
    # A store in memory would be another one when the result reads it.
    with KernelStore(url) as opened, view:
        spec = with_jobs(spec, functions, view, jobs)
        remark(functions, spec, view)
        searched = run_search(opened, functions, spec, view, chip=of)
        planned = known_gains(opened, searched.task_ids, searched.report.device, of)
    plan = plan_result(searched.plans, planned, of, refused=functions.refused)
    return SearchResult(searched.report, plan, url, of)


class Searched:
    """A search that ended: its report and the plans that it worked by."""

    def __init__(self, report: SearchReport, plans: Sequence[FunctionPlan]) -> None:
        self.report = report
        self.plans = tuple(plans)

    @property
    def task_ids(self) -> set[str]:
        """The tasks of all plans."""
        return {task.task.fingerprint for plan in self.plans for task in plan.tasks}


def run_search(
    store: KernelStore,
    functions: Captured,
    spec: SearchSpec,
    view: ProgressView,
    *,
    chip: str | None = None,
    on_start: Callable[[Callable[[], None]], None] = lambda stop: None,
    priorities: Mapping[str, float] | None = None,
    care: DeviceCare = USUAL_CARE,
) -> Searched:
    """Run the engine with the team that `spec` names; `priorities` are of functions by name.

    `on_start` takes what ends the search in order, which any thread may call; another process
    may pause, resume or stop it, as `kernelwright campaign` does.
    """
    planner, pause = _Remembering(), Pause()
    watch = StopWatch(store, pause, lambda words: view.show(ModelRemarked(sentence=words)))

    def listen(event: Event) -> None:
        watch.show(event)
        view.show(event)

    with open_team(store, spec, listen=view.show) as team_factory:
        engine = Engine(
            store,
            spec,
            offline_team(),
            evaluators_for(spec, store, fleet=False),
            RunSettings(
                listen=listen,
                team_factory=planner.put_in_front(team_factory, spec),
                order=SecondsToSave(priorities or {}),
                pause=pause,
                care=care,
                chip=chip,
            ),
        )
        on_start(engine.stop)
        with ending_in_order(engine.stop), watch.calling(engine.stop):
            report = engine.run(functions)
    plans = [plan_function(f, planner, report.device) for f in functions.functions]
    return Searched(report, plans)


def with_jobs(
    spec: SearchSpec, functions: Captured, view: ProgressView, jobs: int | None
) -> SearchSpec:
    """Return the spec with as many jobs as suit the machine, and say so, unless some were given."""
    if jobs or current_settings().jobs:
        return spec
    graphs = (function.graph for function in functions.functions)
    choice = choose_jobs(this_host(spec.device), spec.device, graphs)
    view.show(ModelRemarked(sentence=choice.words))
    return spec.model_copy(update={"jobs": choice.jobs})


def remark(functions: Captured, spec: SearchSpec, view: ProgressView) -> None:
    """Say what it may cost, what graphs do not keep, and what takes long."""
    expected = forecast((f.graph for f in functions.functions), spec)
    sentences = [] if expected is None else [expected.sentence]
    sentences += [r for function in functions.functions for r in function.remarks]
    if spec.device == "simulator":
        sentences += [size_warning(f.subject.name, f.graph) for f in functions.functions]
    for sentence in filter(None, sentences):
        view.show(ModelRemarked(sentence=in_python(sentence)))


class _Remembering:
    """A planner that repeats what the search's own planner said of each graph."""

    def __init__(self) -> None:
        self._planner: Planner = offline_team().planner
        self._plans: dict[str, Plan] = {}

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        """Return the plan of a graph, made once."""
        if graph.fingerprint not in self._plans:
            self._plans[graph.fingerprint] = self._planner.plan(graph, device)
        return self._plans[graph.fingerprint]

    def put_in_front(self, team_factory: TeamFactory | None, spec: SearchSpec) -> TeamFactory:
        """Return what opens the same team with this planner in front of its own."""

        def opened(campaign_id: str, executor: Executor) -> CampaignTeam:
            if team_factory is None:
                team = offline_team()
                found = CampaignTeam(team, RepairThenWrite(team, executor.info, spec))
            else:
                found = team_factory(campaign_id, executor)
            self._planner = found.team.planner
            return CampaignTeam(replace(found.team, planner=self), found.strategy)

        return opened
