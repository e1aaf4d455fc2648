"""Verdicts of a busy machine beside those of one at rest: `python -m benchmarks.simulator load`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.corpus import mutants
from kernelwright.evaluator.attacks.honest import honest_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program

_SPIN = "while True: pass"


@dataclass(frozen=True)
class Subject:
    """A program to be judged twice."""

    name: str
    task: Task
    program: Program


def subjects(count: int) -> list[Subject]:
    """Return so many programs of the corpus and of the honest kernels, evenly drawn."""
    known = [Subject(m.name, m.task, m.program) for m in mutants()]
    known += [Subject(k.name, k.task, k.program) for k in honest_kernels()]
    step = max(len(known) / count, 1)
    return [known[int(i * step)] for i in range(min(count, len(known)))]


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes running that do nothing but run."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def main(count: int = 200, processes: int = 8) -> int:
    """Judge each program at rest and under load; return how many verdicts differ."""
    chosen = subjects(count)
    at_rest, rest_s = _verdicts(chosen)
    with busy(processes):
        loaded, loaded_s = _verdicts(chosen)
    differing = [
        f"{one.name}: {a}, under load {b}"
        for one, a, b in zip(chosen, at_rest, loaded, strict=True)
        if a != b
    ]
    print(
        f"{len(chosen)} programs, {os.cpu_count()} cores: {rest_s:.0f} s at rest, {loaded_s:.0f} s "
        f"beside {processes} busy processes; {len(differing)} verdicts differ"
    )
    print("\n".join(differing))
    return len(differing)


def _verdicts(chosen: list[Subject]) -> tuple[list[str], float]:
    started = time.monotonic()
    config = EvaluatorConfig(secret="load", run_timeout_s=2, generic_shapes=4)
    with Evaluator(config=config) as evaluator:
        found = [_verdict(evaluator, one) for one in chosen]
    return found, time.monotonic() - started


def _verdict(evaluator: Evaluator, one: Subject) -> str:
    try:
        return evaluator.evaluate(one.task, one.program).status.value
    except DeviceError as e:
        return f"none ({e})"
