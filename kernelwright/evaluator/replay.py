"""One caught case, run again by itself: what went in, what had to come out, what came out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.diagnose.hint import hinted
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.oracle.reference import Reference, prepare
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.protocol import Context
from kernelwright.evaluator.stages.static_rules import StaticRules
from kernelwright.evaluator.stages.trial import Failure, check_answer
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.metal.device.executable import Array, Device
from kernelwright.metal.kernel import Program

_SHOWN = 6
"""Values of an input of which no element belongs to the wrong one alone."""


@dataclass(frozen=True)
class Replay:
    """What became of a case."""

    holds: bool
    lines: tuple[str, ...]


def replay(
    task: Task,
    program: Program,
    kept: CaughtCase,
    *,
    device: str | Device = "simulator",
    config: EvaluatorConfig | None = None,
) -> Replay:
    """Run a program on one case, under the sanitizer and plainly, and say what is wrong.

    Raises:
        InputError: the case belongs to another task.
        DeviceError: the machine failed, not the program.
    """
    if kept.task != task.fingerprint:
        raise InputError(
            f"expected a case of task {task.fingerprint[:12]}, found one of {kept.task[:12]}; "
            "give the task that it failed on."
        )
    config = config or EvaluatorConfig()
    reference = prepare(kept.case, task.output_tolerances, kept.secret)
    pool = WorkerPool(device, config)
    try:
        _run(task, program, reference, pool, config)
    except Failure as failure:
        lines = (f"{failure.status.value}: {failure.summary}", *_inputs(failure, reference))
        return Replay(False, lines)
    finally:
        pool.close()
    return Replay(True, (f"the case holds: {reference.case.name}.",))


def _run(
    task: Task, program: Program, reference: Reference, pool: WorkerPool, config: EvaluatorConfig
) -> None:
    cases = CaseSource(config, SuiteCache())
    context = Context(task, program, config, pool.info, Verdict(), cases, pool)
    StaticRules().run(context)
    trial = pool.trial(context.program)
    try:
        pool.sanitizing_trial(trial).run(reference, sanitize=True)
        check_answer(trial.run(reference), reference)
    except Failure as failure:
        raise hinted(failure, context.program) from None


def _inputs(failure: Failure, reference: Reference) -> Iterator[str]:
    graph = reference.case.graph
    for mismatch in failure.mismatches[:1]:
        place = ", ".join(map(str, mismatch.index))
        if mismatch.expected is not None and mismatch.found is not None:
            yield (
                f"output {mismatch.output} at [{place}]: expected {mismatch.expected:.9g}, found "
                f"{mismatch.found:.9g}"
            )
        for name, array in zip(graph.input_names(), reference.inputs, strict=True):
            yield f"input {name} {_value(array, mismatch.index)}"


def _value(array: Array, index: tuple[int, ...]) -> str:
    """Return the element at the place of the wrong one, or how the input begins."""
    trailing = index[len(index) - array.ndim :] if array.ndim <= len(index) else ()
    if trailing and all(i < n for i, n in zip(trailing, array.shape, strict=True)):
        return f"at [{', '.join(map(str, trailing))}]: {array[trailing]}"
    first = ", ".join(map(str, array.reshape(-1)[:_SHOWN]))
    return f"begins with {first}" if array.size > 1 else f"is {first}"


def keep_case(kept: CaughtCase) -> None:
    """Keep a case on this machine, where `find_case` finds it by its id."""
    path = _path(kept.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kept.model_dump_json())


def find_case(case_id: str) -> CaughtCase:
    """Return a case that was kept on this machine.

    Raises:
        InputError: there is none of that id.
    """
    unknown = InputError(
        "expected the id of a case that `kernelwright verify` or the store keeps, found "
        f"{case_id!r}; copy it from the verdict that names it."
    )
    if not case_id.isalnum():
        raise unknown
    try:
        return CaughtCase.model_validate_json(_path(case_id).read_bytes())
    except (OSError, ValidationError) as e:
        raise unknown from e


def _path(case_id: str) -> Path:
    return shared_cache() / "cases" / f"{case_id}.json"
