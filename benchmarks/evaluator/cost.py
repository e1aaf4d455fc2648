"""What a verdict costs by stage, at several sizes: a task's first candidate, and the next.

    python -m benchmarks.evaluator cost [--smallest 100000] [--largest 100000000] [--tasks softmax]

The first candidate pays for what a task's candidates share: inputs, and what the oracle says of
them. The next one is another program for the same task. Processor seconds of this process and its
workers, which other work on the machine changes little, stand at the end (on Linux).
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import mlx.core as mx

from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.inputs import suite
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.task import Task
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

_COLUMNS = 1024
_SIZES = (10**5, 10**6, 10**7, 10**8)
_INPUTS, _REFERENCES = "drawing inputs", "references"


def softmax(x: mx.array) -> mx.array:
    """Softmax of rows."""
    return mx.softmax(x, axis=-1)


def residual_rms_norm(x: mx.array, y: mx.array, w: mx.array) -> mx.array:
    """Add a residual and normalise."""
    return mx.fast.rms_norm(x + y, w, 1e-5)


def swiglu(x: mx.array, y: mx.array) -> mx.array:
    """Gate one half by the other."""
    return x * mx.sigmoid(x) * y


def modulate(x: mx.array, y: mx.array, gate: mx.array, scale: mx.array, w: mx.array) -> mx.array:
    """Gate a residual into a block of a diffusion transformer, normalise and modulate it."""
    return mx.fast.rms_norm(x + gate * y, w, 1e-6) * (1 + scale)


_TASKS: dict[str, tuple[Callable[..., mx.array], int, int]] = {
    "softmax": (softmax, 1, 0),
    "residual_rms_norm": (residual_rms_norm, 2, 1),
    "swiglu": (swiglu, 2, 0),
    "modulate": (modulate, 4, 1),
}
"""A function with its number of matrices and of vectors."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each task and size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--largest", type=int, default=10**8, help="elements of a matrix")
    parser.add_argument("--smallest", type=int, default=10**5, help="elements of a matrix")
    parser.add_argument("--tasks", default=",".join(_TASKS))
    chosen = parser.parse_args(arguments)
    mx.set_default_device(mx.cpu)
    for name in chosen.tasks.split(","):
        for elements in sorted({*_SIZES, chosen.smallest, chosen.largest}):
            if chosen.smallest <= elements <= chosen.largest:
                _print(name, elements)


def _print(name: str, elements: int) -> None:
    task, programs = _task(name, elements)
    config = EvaluatorConfig(secret="cost", through=Stage.CONFIRMATION)
    found: list[tuple[Evaluation, dict[str, float], float]] = []
    processor_s: list[float] = []
    with Evaluator("simulator", config) as evaluator:
        assert evaluator.info
        for program in programs:
            with _shared_costs() as costs:
                began, used = time.perf_counter(), _processor_seconds()
                evaluation = evaluator.evaluate(task, program)
                found.append((evaluation, dict(costs), time.perf_counter() - began))
                processor_s.append(_processor_seconds() - used)
    shape = " ".join(map(str, task.graph.input_types))
    print(f"\n{name} {shape}: {', '.join(e.status.value for e, _, _ in found)}")
    rows: dict[str, list[float]] = defaultdict(list)
    for evaluation, costs, whole_s in found:
        by_stage = {s.stage.value: s.duration_s for s in evaluation.stages}
        for part in (_INPUTS, _REFERENCES, *(s.value for s in Stage), "elsewhere"):
            if part == "elsewhere":
                rows[part].append(whole_s - sum(by_stage.values()))
            else:
                rows[part].append({**costs, **by_stage}.get(part, 0.0))
        rows["whole"].append(whole_s)
    print(f"  {'seconds':<18}" + "".join(f"{h:>10}" for h in ("first", "next")[: len(found)]))
    for part, seconds in rows.items():
        print(f"  {part:<18}" + "".join(f"{s:10.2f}" for s in seconds))
    print(f"  {'on processors':<18}" + "".join(f"{s:10.2f}" for s in processor_s))
    # The inputs and references are drawn within stages or between them, on several threads.
    print("  (inputs and references are thread seconds, within the stages that ask for them)")


def _processor_seconds() -> float:
    """Return what this process and those below it have used so far; 0 where /proc has none."""
    parents, used = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Of the process itself and of its children that have ended, see proc_pid_stat(5).
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        used[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return sum(s for number, s in used.items() if _stands_below(number, os.getpid(), parents))


def _stands_below(number: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while number != ancestor and number in parents:
        number = parents[number]
    return number == ancestor


def _task(name: str, elements: int) -> tuple[Task, list[Program]]:
    function, matrices, vectors = _TASKS[name]
    rows = max(elements // _COLUMNS, 1)
    arrays = [mx.zeros((rows, _COLUMNS))] * matrices + [mx.zeros((_COLUMNS,))] * vectors
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, *arrays))
    programs = []
    with Evaluator("simulator") as evaluator:
        tried = schedules(graph, evaluator.info)
    for schedule in dict.fromkeys((tried[0], tried[min(1, len(tried) - 1)])):
        try:
            program = lower(graph, schedule)
        except KernelwrightError:
            continue
        programs.append(program)
    return Task(graph, name), programs


@contextmanager
def _shared_costs() -> Iterator[dict[str, float]]:
    """Add up what drawing inputs and asking the oracle takes, over all threads."""
    costs: dict[str, float] = defaultdict(float)
    inputs, prepare = Case.inputs, suite.prepare

    def timed(part: str, function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*arguments: object, **options: object) -> object:
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                costs[part] += time.perf_counter() - began

        return call

    Case.inputs = timed(_INPUTS, inputs)  # type: ignore[method-assign, assignment]
    suite.prepare = timed(_REFERENCES, prepare)  # type: ignore[assignment]
    try:
        yield costs
    finally:
        Case.inputs, suite.prepare = inputs, prepare  # type: ignore[method-assign]
