"""A kernel that a client wrote, judged and recorded as any candidate of a search is."""

import threading
from collections.abc import Callable, Mapping, Sequence

from kernelwright.agents.protocols import Attempt, Plan, PlannedRegion, Proposal
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.campaign import Captured, Engine, SearchSpec, judges_on
from kernelwright.campaign.event import Event, ModelRemarked
from kernelwright.campaign.execution.run_settings import CampaignTeam, RunSettings
from kernelwright.campaign.planning.capturing import plan_function
from kernelwright.errors import InputError
from kernelwright.evaluator.static.rules import MAXIMUM_LENGTH
from kernelwright.evaluator.submission import LaunchText, program_of_body
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.kernel import Program
from kernelwright.search.strategy import Done, Team
from kernelwright.search.task_search import TaskSearch
from kernelwright.service.mcp.turn import in_turn
from kernelwright.service.python.target import captured
from kernelwright.store import Candidate, CandidateDetail, KernelStore

AUTHOR = "mcp"
_FROM_A_CLIENT = "submitted by an MCP client"
_LONGEST_IDEA = 2000
"""Characters of what a client says about its kernel."""


class WholeFunction:
    """A planner that gives one kernel the whole function."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        """Return one region of all nodes."""
        region = PlannedRegion(indices=tuple(range(len(graph.nodes))))
        return Plan(regions=(region,), author=AUTHOR)


class _Nobody:
    """A coder and a repairer that propose nothing."""

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        """Return no program."""
        return ()

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Return no program."""
        return None


class _OneProgram:
    """A strategy that tries one program."""

    def __init__(self, program: Program, idea: str) -> None:
        self._proposal = Proposal(program=program, author=AUTHOR, idea=idea)

    def next(self, search: TaskSearch) -> list[Proposal] | Done:
        """Return the program until it was tried."""
        ending = self.ending(search)
        return Done(ending) if ending else [self._proposal]

    def left(self, search: TaskSearch) -> Sequence[Proposal]:
        """Return nothing: the program is proposed at once."""
        return ()

    def leave(self, search: TaskSearch, reason: str) -> None:
        """Do nothing: nobody holds a conversation."""

    def is_spent(self, search: TaskSearch) -> bool:
        """Say whether the program was tried."""
        return self._proposal.program.id in search.tried()

    def ending(self, search: TaskSearch) -> str:
        """Say that the program was tried; empty where it was not."""
        return "the submitted kernel was judged" if self.is_spent(search) else ""


def whole_function(target: str, inputs: Sequence[str], store: str | None) -> tuple[Captured, Task]:
    """Trace a target, which must be one function at one choice of inputs.

    Raises:
        InputError: it is none, or several.
        UnsupportedError: it computes what no graph can hold.
    """
    functions = captured(target, list(inputs) or None, store)
    if len(functions.functions) != 1:
        names = ", ".join(f.subject.name for f in functions.functions)
        raise InputError(
            f"expected one function at one choice of inputs in {target}, found {names}; name one "
            "after ':' and give its inputs."
        )
    info = open_device("simulator").info
    (planned,) = plan_function(functions.functions[0], WholeFunction(), info).tasks
    return functions, planned.task


def briefs_of(
    target: str, inputs: Sequence[str], device: DeviceName, store: str | None
) -> tuple[str, ...]:
    """Return what a kernel of each whole function must compute, as a coder is told it."""
    info = open_device(device).info
    plans = [
        plan_function(function, WholeFunction(), info)
        for function in captured(target, list(inputs) or None, store).functions
    ]
    return tuple("\n".join(task_text(t.task, info) for t in plan.tasks) for plan in plans)


def _check_lengths(texts: Mapping[str, str], most: int) -> None:
    """Refuse texts that no kernel needs, before anything of them is recorded."""
    for name, text in texts.items():
        if len(text) > most:
            raise InputError(
                f"expected at most {most} characters of {name}, found {len(text)}; shorten it."
            )


def judge(
    store: KernelStore,
    target: str,
    inputs: Sequence[str],
    source: str,
    launch: LaunchText,
    *,
    device: DeviceName,
    idea: str = "",
    listen: Callable[[Event], None] = lambda event: None,
    on_start: Callable[[Callable[[], None]], None] = lambda stop: None,
    ended: threading.Event | None = None,
) -> CandidateDetail:
    """Judge a Metal body and return the candidate with its verdict, as the store holds it.

    `on_start` takes a function that ends the work in order. Where another process judges kernels
    of the same function, its turn is waited for until `ended` is set.

    Raises:
        InputError: target, launch and body do not fit together, or a text is too long to be kept.
        DeviceError: this machine has no such device.
    """
    _check_lengths({"source": source, "header": launch.header}, MAXIMUM_LENGTH)
    _check_lengths({"idea": idea}, _LONGEST_IDEA)
    functions, task = whole_function(target, inputs, store.url)
    program = program_of_body(source, "submitted", task.graph, launch)
    nobody = _Nobody()
    team = Team(WholeFunction(), nobody, nobody)
    spec = SearchSpec(device=device, candidates_per_task=1, repairs=0)

    def run() -> None:
        engine = Engine(
            store,
            spec,
            team,
            judges_on(device, store),
            RunSettings(
                listen=listen,
                team_factory=lambda campaign, executor: CampaignTeam(
                    team, _OneProgram(program, idea or _FROM_A_CLIENT)
                ),
            ),
        )
        on_start(engine.stop)
        engine.run(functions)

    def waits(sentence: str) -> None:
        listen(ModelRemarked(sentence=sentence))

    in_turn(run, ended or threading.Event(), waits)
    detail = store.show(Candidate.id_of(task.fingerprint, program.id))
    if detail.standing is None:
        raise InputError("the evaluation ended before the kernel was judged; submit it again.")
    return detail
