"""The first visible case that refuses a program, under many secrets: it is compiled once for all.

What is wrong in a case of the suite is refused by the whole verdict too, if not before that. So a
program whose numbers are wrong takes one short run for each secret.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.inputs.shape import visible_graphs
from kernelwright.evaluator.inputs.suite import drawn_in_turn
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.allclose import check_closeness
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.protocol import Context
from kernelwright.evaluator.stages.static_rules import StaticRules
from kernelwright.evaluator.stages.trial import Failure, Trial, check_answer
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program


@dataclass
class Drawn:
    """Cases of one task under one secret, drawn as they are asked for and kept."""

    more: Iterator[Reference]
    kept: list[Reference] = field(default_factory=list)

    def __iter__(self) -> Iterator[Reference]:
        place = 0
        while place < len(self.kept) or self._draws():
            yield self.kept[place]
            place += 1

    def _draws(self) -> bool:
        found = next(self.more, None)
        if found is not None:
            self.kept.append(found)
        return found is not None


@dataclass
class FirstRefusals:
    """Looks for the first refusal of the programs of one task after the other."""

    config: EvaluatorConfig
    _workers: WorkerPool = field(init=False)
    _drawn: dict[tuple[str, ...], Drawn] = field(default_factory=dict, init=False)
    _task: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._workers = WorkerPool("simulator", self.config)

    def close(self) -> None:
        """End the workers."""
        self._workers.end()

    def under(
        self, task: Task, program: Program, secrets: Sequence[str]
    ) -> Iterator[tuple[str, Failure | None]]:
        """Yield each secret with the failure in its cases; None where they do not refuse."""
        if task.fingerprint != self._task:
            self._task = task.fingerprint
            self._drawn.clear()
        graphs = visible_graphs(task, program, self.config)
        trial = None
        for secret in secrets:
            trial = trial or self._trial(task, program)
            under_secret = replace(trial, config=_with(self.config, secret))
            failure = _first_failure(under_secret, self._cases(task, graphs, secret))
            yield secret, failure
            if failure is not None and failure.lost_worker:
                self._workers.close()
                trial = None

    def _trial(self, task: Task, program: Program) -> Trial:
        context = Context(
            task=task,
            submitted=program,
            config=self.config,
            info=self._workers.info,
            verdict=Verdict(),
            cases=CaseSource(self.config, SuiteCache()),
            workers=self._workers,
        )
        StaticRules().run(context)
        trial = self._workers.trial(context.program)
        trial.compile(task.graph)
        return trial

    def _cases(self, task: Task, graphs: Sequence[Graph], secret: str) -> Drawn:
        key = (secret, *(graph.fingerprint for graph in graphs))
        if key not in self._drawn:
            visible = CaseSource(_with(self.config, secret), SuiteCache()).secret("visible")
            more = drawn_in_turn(task, graphs, _with(self.config, visible))
            self._drawn[key] = Drawn(more)
        return self._drawn[key]


def _with(config: EvaluatorConfig, secret: str) -> EvaluatorConfig:
    return config.model_copy(update={"secret": secret})


def _first_failure(trial: Trial, cases: Drawn) -> Failure | None:
    try:
        for seed, reference in enumerate(cases):
            result = trial.run(reference, seed=seed)
            check_answer(result, reference)
            check_closeness(reference.closeness(result.outputs), reference)
    except Failure as failure:
        return failure
    return None


def is_refusal(status: Status) -> bool:
    """Say whether a status keeps a program from being used."""
    return status not in (Status.CORRECT, Status.PROMOTED)
