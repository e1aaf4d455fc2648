"""Cases for the stages: drawn from one secret, a separate one for each purpose, built once."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.counted import COMMON_DRAW, common_suite
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.shape import hidden_graphs, timed_graphs, visible_graphs
from kernelwright.evaluator.inputs.suite import (
    LiteralCases,
    Suite,
    hidden_suite,
    literal_suite,
    visible_suite,
    with_regressions,
)
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.inputs.suite_plan import HIDDEN_DISTRIBUTIONS
from kernelwright.evaluator.oracle.parallel import begin, begin_ahead
from kernelwright.evaluator.speed.timing_cases import TimingCases, timing_cases
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.timeline import span

_TIMED = (*(Distribution.NORMAL,) * 4, Distribution.MIXED, Distribution.MIXED, Distribution.NORMAL)
"""What every candidate is timed on, in turn: a length that has no factor in common with the number
of structures, so that each meets each."""

_SETS_OF_A_TASK = 4
"""Visible, common, hidden and confirming cases, each about as large as the others."""


@dataclass(frozen=True)
class CaseSource:
    """Draws what programs are judged and timed on; evaluators that share a cache share them."""

    config: EvaluatorConfig
    suites: SuiteCache
    regressions: list[CaughtCase] = field(default_factory=list)
    """Cases that have caught a program, those found here last."""
    draws_ahead: bool = False
    """True where whoever confirms finds what was drawn while a program was timed."""

    def visible(self, task: Task, program: Program) -> Suite:
        """Return the cases whose failures are told; programs of the same shapes share them."""
        config = self._config("visible")
        graphs = visible_graphs(task, program, config)

        def build() -> Suite:
            with span("draw visible cases"):
                suite = visible_suite(task, graphs, config)
            return _answered_ahead(with_regressions(suite, task, self.regressions, graphs))

        # Nobody else has these: they are drawn beside what the candidates of a task share.
        def build_own() -> LiteralCases:
            with span("draw cases of the program's text"):
                return literal_suite(task, program, graphs, config)

        own = begin(build_own)
        # A case that has caught a program since makes it another suite.
        caught = tuple(sorted(k.id for k in self.regressions if k.task == task.fingerprint))
        shared = self._take(config.secret, task, graphs, build, caught)
        # Threads that draw for others may not have come to it.
        return (build_own() if own.cancel() else own.result()).added_to(shared)

    def common(self, task: Task, program: Program) -> Suite:
        """Return the cases that a program's time is predicted for, whatever the secret."""
        graphs = visible_graphs(task, program, self.config)

        def build() -> Suite:
            with span("draw common cases"):
                return common_suite(task, graphs, self.config)

        return self._take(COMMON_DRAW, task, graphs, build)

    def hidden(self, task: Task, program: Program, purpose: str = "hidden") -> Suite:
        """Return cases at shapes and of seeds that nobody has seen, others for each purpose."""
        config = self._config(purpose)
        again = purpose == "confirmation"
        graphs = hidden_graphs(task, program, config, again=again)

        def build() -> Suite:
            with span(f"draw {purpose} cases"):
                suite = hidden_suite(task, graphs, config, again=again)
            return _answered_ahead(suite)

        return self._take(config.secret, task, graphs, build)

    def _take(
        self,
        secret: str,
        task: Task,
        graphs: Sequence[Graph],
        build: Callable[[], Suite],
        caught: tuple[str, ...] = (),
    ) -> Suite:
        return self.suites.get_or_build(
            (secret, task.fingerprint, *(g.fingerprint for g in graphs), *caught), build
        )

    def draw_later_ahead(
        self, task: Task, program: Program, seen: Suite, is_over: Callable[[], bool]
    ) -> None:
        """Begin what a program that is right on `seen` will be counted on, and judged on unseen.

        One set after the other, in the order in which they are asked for, until the verdict is
        over: another stage is at work beside them. What asks for one that is being drawn waits for
        it. Cases of few elements are Python's work, one thread at a time, and where the machine
        could not keep all four sets each is drawn once it is asked for.
        """
        if not self.suites.keeps(_SETS_OF_A_TASK * seen.nbytes):
            return
        if task.graph.element_count <= self.config.case_elements:
            return
        sets: list[Callable[[], object]] = [partial(self.common, task, program)]
        if self.config.runs(Stage.HIDDEN) or self.draws_ahead:
            sets.append(partial(self.hidden, task, program))
        if self.config.runs(Stage.CONFIRMATION) or self.draws_ahead:
            sets.append(partial(self.hidden, task, program, "confirmation"))

        def draw() -> None:
            for one in sets:
                if not is_over():
                    one()

        begin_ahead(draw)

    def draw_timing_ahead(self, task: Task) -> None:
        """Begin what a program will be timed on, while the device does other things for it."""
        begin(lambda: self.timing(task))

    def work_out_timing_ahead(self, task: Task) -> None:
        """Begin what is right there, while a program is judged on what its visible cases are.

        Behind all that is drawn once it is timed, the timing would wait for it.
        """
        begin(lambda: self.timing(task).work_out_ahead())

    def draw_hidden_ahead(self, task: Task, program: Program) -> None:
        """Begin what a program will be confirmed on, while it is timed, and what is right there.

        Each is needed once the one before it is done with.
        """

        def draw_unseen_timing() -> None:
            for cases in self.unseen_timing(task, program):
                cases.work_out_ahead()

        begin_ahead(lambda: self.hidden(task, program))
        begin_ahead(draw_unseen_timing)
        begin_ahead(lambda: self.hidden(task, program, "confirmation"))
        begin_ahead(lambda: self.confirming_timing(task).work_out_ahead())

    def timing(self, task: Task) -> TimingCases:
        """Return what every candidate of a task is timed on."""
        return self._timed(task, task.graph, "timing", _TIMED)

    def unseen_timing(self, task: Task, program: Program) -> tuple[TimingCases, ...]:
        """Return what a program is timed on at shapes that nobody has seen."""
        graphs = timed_graphs(task, program, self._config("hidden"))
        kinds = HIDDEN_DISTRIBUTIONS
        return tuple(self._timed(task, g, "hidden timing", kinds) for g in graphs)

    def confirming_timing(self, task: Task) -> TimingCases:
        """Return what a champion is timed on once more, of every hidden distribution in turn."""
        return self._timed(task, task.graph, "confirmation timing", HIDDEN_DISTRIBUTIONS)

    def _timed(
        self, task: Task, graph: Graph, purpose: str, kinds: Sequence[Distribution]
    ) -> TimingCases:
        """Return what candidates are timed on; those of one shape and purpose share it."""
        secret, plan = self.secret(purpose), self.config.timing

        def build() -> TimingCases:
            try:
                with span(f"draw inputs for {purpose}"):
                    return timing_cases(graph, task.output_tolerances, plan, secret, kinds)
            except InputError as e:
                raise Failure(Status.UNPROVEN, str(e)) from e

        return self.suites.get_or_build(
            (purpose, secret, task.fingerprint, graph.fingerprint), build
        )

    def secret(self, purpose: str) -> str:
        """Return what draws the cases of a purpose: from one, the others cannot be found."""
        return hashlib.sha256(f"{self.config.secret}|{purpose}".encode()).hexdigest()

    def _config(self, purpose: str) -> EvaluatorConfig:
        return self.config.model_copy(update={"secret": self.secret(purpose)})


def _answered_ahead(suite: Suite) -> Suite:
    """Begin what MLX itself gives in each case, which outputs are held beside, case by case."""

    def answer() -> None:
        for reference in suite.references:
            reference.allclose_answers()

    begin(answer)
    return suite
