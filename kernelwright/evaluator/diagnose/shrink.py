"""The smallest shape at which a program is still wrong: what a person wants to look at."""

from collections.abc import Iterator
from dataclasses import replace

from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.inputs.shape import Sizes, graphs_at, sizes_at
from kernelwright.evaluator.oracle.reference import Reference, prepare
from kernelwright.evaluator.stages.trial import Failure, Trial, check_answer
from kernelwright.evaluator.task import Task

_MOST_TRIES = 6
_SMALLER = (1, 2, 4, 8, 32)


def shrink(trial: Trial, task: Task, failure: Failure, secret: str) -> Failure:
    """Return the failure with its mismatches at the smallest shape that shows it added.

    `secret` draws the inputs there, as it drew those of the case that failed.
    """
    if failure.status is not Status.WRONG or failure.reference is None:
        return failure
    try:
        smallest = _smallest(trial, task, failure, failure.reference, secret)
    except Failure:
        # It took its process along at a smaller shape: that is no shape to show.
        trial.worker.close()
        return failure
    if smallest is failure:
        return failure
    shapes = " ".join(smallest.mismatches[0].shapes)
    return Failure(
        failure.status,
        f"{failure.summary} The smallest failing shape found is {shapes}.",
        mismatches=(*failure.mismatches, *smallest.mismatches),
        reference=smallest.reference,
    )


def _smallest(trial: Trial, task: Task, failure: Failure, first: Reference, secret: str) -> Failure:
    smallest, tries = failure, 0
    for name in trial.program.dimensions:
        for sizes in _smaller(trial, smallest.reference, name):
            if tries == _MOST_TRIES:
                return smallest
            tries += 1
            found = _failure_at(trial, task, sizes, first, secret)
            if found is not None:
                smallest = found
                break
    return smallest


def _smaller(trial: Trial, reference: Reference | None, name: str) -> Iterator[Sizes]:
    """Yield the failing shape with one dimension smaller, smallest first."""
    assert reference is not None
    current = sizes_at(trial.program, reference.case.graph)
    yield from ({**current, name: size} for size in _SMALLER if size < current[name])


def _failure_at(
    trial: Trial, task: Task, sizes: Sizes, reference: Reference, secret: str
) -> Failure | None:
    for graph in graphs_at(task, trial.program, [sizes]):
        case = replace(reference.case, graph=graph)
        prepared = prepare(case, task.output_tolerances, secret)
        if prepared.dropped:
            return None
        try:
            check_answer(trial.run(prepared), prepared)
        except Failure as found:
            if found.lost_worker:
                raise
            return found if found.status is Status.WRONG else None
    return None
