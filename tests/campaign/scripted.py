"""A team and a judge whose every answer is known, so that only the engine is on trial."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from kernelwright.agents.protocols import Attempt, Plan, PlannedRegion, Proposal
from kernelwright.campaign import Engine, SearchSpec, Subject, Team, capture_subjects
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import StageResult
from kernelwright.ir import Graph
from kernelwright.metal import Kernel, Program, Tensor
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore

INFO = DeviceInfo(name="simulator", chip="scripted", runtime="1", measures_time=False)


def norm(x: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, weight, 1e-5)


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def subjects() -> tuple[Subject, ...]:
    x, weight = mx.zeros((4, 8)), mx.zeros((8,))
    return (
        Subject("norm", norm, (x, weight), {}, "scripted.py"),
        Subject("softmax", softmax, (x,), {}, "scripted.py"),
    )


class WholePlanner:
    """Takes every graph whole."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        region = PlannedRegion(indices=tuple(range(len(graph.nodes))))
        return Plan(regions=(region,), author="scripted")


@dataclass
class ScriptedCoder:
    """Writes programs that say in their source what shall become of them."""

    scripts: Sequence[str] = (
        "correct 9",
        "wrong",
        "correct 3",
        "compile",
        "correct 5",
        "correct 7",
    )

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        tried = {attempt.proposal.program.kernels[0].source for attempt in history}
        left = [script for script in self.scripts if script not in tried]
        return [proposal(task, script) for script in left[:count]]


class ScriptedRepairer:
    """Turns a program that does not compile into a quick one; a wrong one stays wrong once more."""

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        source = failed.proposal.program.kernels[0].source
        if source == "compile":
            return proposal(task, "correct 2", parent=failed.proposal.program.id)
        if source.startswith("wrong"):
            return proposal(task, f"{source} again", parent=failed.proposal.program.id)
        return None


@dataclass
class ScriptedJudge:
    """Reads the verdict from the source; counts what it was asked."""

    asked: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    fragile: frozenset[str] = frozenset()
    """Scripts that are right on the visible cases only."""
    closed: bool = False
    before: threading.Event | None = None

    @property
    def info(self) -> DeviceInfo:
        return INFO

    def script(self, program: Program) -> str:
        """Return what shall become of a program."""
        return program.kernels[0].source

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        if self.before is not None:
            assert self.before.wait(10)
        script = self.script(program)
        word, _, figure = script.partition(" ")
        self.asked.append(f"{task.name} {script}")
        status = {
            "correct": Status.CORRECT,
            "wrong": Status.WRONG,
            "compile": Status.COMPILE_ERROR,
            "timeout": Status.TIMEOUT,
        }[word]
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=INFO,
            status=status,
            summary=word,
            predicted_us=float(figure) if word == "correct" else None,
        )

    def confirm(self, task: Task, program: Program) -> Evaluation:
        script = self.script(program)
        self.confirmed.append(f"{task.name} {script}")
        holds = script not in self.fragile
        gates = (
            StageResult(stage=Stage.HIDDEN, passed=holds, summary=""),
            StageResult(stage=Stage.CONFIRMATION, passed=holds, summary=""),
        )
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=INFO,
            status=Status.CORRECT if holds else Status.UNPROVEN,
            summary="all" if holds else "the hidden gate did not hold",
            stages=gates,
            predicted_us=float(script.partition(" ")[2]),
        )

    def close(self) -> None:
        self.closed = True


class TrustingJudge(ScriptedJudge):
    """Finds every program right and runs none."""

    def script(self, program: Program) -> str:
        return "correct 1"


def proposal(task: Task, script: str, parent: str | None = None) -> Proposal:
    inputs = [
        Tensor(name=f"x{i}", dtype=t.dtype, shape=t.shape)
        for i, t in enumerate(task.graph.input_types)
    ]
    out = task.graph.output_types[0]
    program = Program(
        inputs=tuple(inputs),
        outputs=(Tensor(name="out", dtype=out.dtype, shape=out.shape),),
        kernels=(
            Kernel(
                name="k",
                inputs=tuple(t.name for t in inputs),
                outputs=("out",),
                source=script,
                grid=(32, 1, 1),
                threadgroup=(32, 1, 1),
            ),
        ),
    )
    return Proposal(program=program, author="scripted", idea=script, schedule=script, parent=parent)


def team(coder: ScriptedCoder | None = None) -> Team:
    return Team(planner=WholePlanner(), coder=coder or ScriptedCoder(), repairer=ScriptedRepairer())


class MortalStore(KernelStore):
    """Kills this very process before or after its n-th write."""

    def __init__(self, url: str, writes: int, *, after: bool) -> None:
        super().__init__(url)
        self._left = writes
        self._after = after
        write = self._write

        def mortal_write():  # type: ignore[no-untyped-def]  # noqa: ANN202
            self._left -= 1
            if self._left == 0 and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            return _Dying(write()) if self._left == 0 else write()

        self._write = mortal_write  # type: ignore[method-assign]


class _Dying:
    """A transaction after whose commit the process is killed."""

    def __init__(self, transaction) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        self._transaction = transaction

    def __enter__(self) -> object:
        return self._transaction.__enter__()

    def __exit__(self, *error: object) -> None:
        self._transaction.__exit__(*error)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    url, writes, when = sys.argv[1:]
    with MortalStore(url, int(writes), after=when == "after") as store:
        Engine(store, SearchSpec(), team(), ScriptedJudge).run(capture_subjects(subjects()))
