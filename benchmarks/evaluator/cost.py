"""What a verdict costs by stage, at several sizes: a task's first candidate, and the next.

    python -m benchmarks.evaluator cost [--smallest 100000] [--largest 100000000] [--tasks softmax]

The first candidate pays for what a task's candidates share: inputs, and what the oracle says of
them. The next one is another program for the same task. Beside the seconds of each stage stand
those of processors, of this process and its workers (on Linux): other work on the machine changes
them little, and seconds times cores less them is what stood still.
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

import mlx.core as mx

from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.inputs import suite
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.task import Task
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

_COLUMNS = 1024
_SIZES = (10**5, 10**6, 10**7, 10**8)
_INPUTS, _REFERENCES = "drawing inputs", "references"
_ELSEWHERE, _WHOLE = "elsewhere", "whole"


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


@dataclass(frozen=True)
class Cost:
    """What one verdict took, by stage and whole."""

    evaluation: Evaluation
    seconds: Mapping[str, float]
    processor_s: Mapping[str, float]


def _print(name: str, elements: int) -> None:
    task, programs = _task(name, elements)
    config = EvaluatorConfig(secret="cost", through=Stage.CONFIRMATION)
    with Evaluator("simulator", config) as evaluator:
        assert evaluator.info
        found = [_measured(evaluator, task, program) for program in programs]
    shape = " ".join(map(str, task.graph.input_types))
    statuses = ", ".join(cost.evaluation.status.value for cost in found)
    print(f"\n{name} {shape}: {statuses}; {os.cpu_count()} cores")
    heads = ("first", "processors", "next", "processors")[: 2 * len(found)]
    print(f"  {'seconds':<18}" + "".join(f"{head:>12}" for head in heads))
    for part in (_INPUTS, _REFERENCES, *(s.value for s in Stage), _ELSEWHERE, _WHOLE):
        numbers = (n for cost in found for n in (cost.seconds[part], cost.processor_s.get(part)))
        print(f"  {part:<18}" + "".join(f"{'' if n is None else f'{n:.2f}':>12}" for n in numbers))
    # The inputs and references are drawn within stages or between them, on several threads.
    print("  (inputs and references are thread seconds, within the stages that ask for them)")


def _measured(evaluator: Evaluator, task: Task, program: Program) -> Cost:
    with _parts_measured() as (seconds, processor_s):
        began, used = time.perf_counter(), _processor_seconds()
        evaluation = evaluator.evaluate(task, program)
        whole_s, whole_processor_s = time.perf_counter() - began, _processor_seconds() - used
    for result in evaluation.stages:
        seconds[result.stage.value] = result.duration_s
    seconds[_ELSEWHERE] = whole_s - sum(result.duration_s for result in evaluation.stages)
    processor_s[_ELSEWHERE] = whole_processor_s - sum(processor_s.values())
    seconds[_WHOLE], processor_s[_WHOLE] = whole_s, whole_processor_s
    return Cost(evaluation, seconds, processor_s)


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
def _parts_measured() -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """Add up what drawing inputs and asking the oracle takes, over all threads.

    Yields these seconds, and those of processors by stage.
    """
    seconds: dict[str, float] = defaultdict(float)
    processor_s: dict[str, float] = {}
    names = vars(suite)
    inputs, prepare, stage = Case.inputs, names["prepare"], Verdict.stage

    def timed(part: str, function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*arguments: object, **options: object) -> object:
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                seconds[part] += time.perf_counter() - began

        return call

    @contextmanager
    def measured(verdict: Verdict, name: Stage) -> Iterator[list[str]]:
        used = _processor_seconds()
        with stage(verdict, name) as words:
            yield words
        processor_s[name.value] = _processor_seconds() - used

    Case.inputs = timed(_INPUTS, inputs)  # type: ignore[method-assign, assignment]
    names["prepare"] = timed(_REFERENCES, prepare)
    Verdict.stage = measured  # type: ignore[method-assign, assignment]
    try:
        yield seconds, processor_s
    finally:
        names["prepare"] = prepare
        Case.inputs, Verdict.stage = inputs, stage  # type: ignore[method-assign]
