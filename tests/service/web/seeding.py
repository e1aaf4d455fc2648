"""Fills a store with many evaluations through its own methods, each as long as a real one."""

import sys
import time

import mlx.core as mx

from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.ir import capture
from kernelwright.metal import Program
from kernelwright.search.spec import SearchSpec
from kernelwright.store import Environment, KernelStore, NewTrial, Rank

_ROWS = 64


def tasks(number: int) -> list[Task]:
    """Return as many different tasks."""

    def scaled(x: mx.array) -> mx.array:
        return mx.maximum(x * 2, 0.5) + 1

    sizes = range(8, 8 + number)
    return [Task(capture(scaled, mx.zeros((_ROWS, n))), f"scaled/{n} columns") for n in sizes]


def seed(
    store: KernelStore, model: Evaluation, program: Program, *, evaluations: int, among: int
) -> str:
    """Write evaluations like `model` for many variants of a program; return the campaign's id."""
    environment = Environment(device=model.device, mlx="0.32.4", system="seeded")
    spec = SearchSpec().model_dump_json()
    campaign = store.begin_campaign(name="many", spec=spec, environment=environment)
    made = tasks(among)
    for task in made:
        store.keep_task(task, signature="scaled", campaign_id=campaign.id, function="scaled")
    parents: dict[str, str] = {}
    for number in range(evaluations):
        task = made[number % among]
        variant = _variant(program, number)
        parent = parents.get(task.fingerprint) if number // among % 3 else None
        new_trial = NewTrial(campaign.id, task, variant, "seed", f"variant {number}",
                        parent_program_id=parent)  # fmt: skip
        trial = store.add_trial(new_trial, signature="scaled")
        store.lease(trial.id)
        right = number % 4 != 0
        evaluation = _like(model, task, variant, number, right=right)
        rank = Rank(kind="predicted", value=evaluation.predicted_us or 1.0) if right else None
        store.record(trial.id, evaluation, rank=rank)
        parents[task.fingerprint] = variant.id
    store.end_campaign(campaign.id, "finished", elapsed_s=1.0)
    return campaign.id


def _variant(program: Program, number: int) -> Program:
    kernel = program.kernels[0]
    changed = kernel.model_copy(update={"source": f"{kernel.source}\n// {number}"})
    return program.model_copy(update={"kernels": (changed, *program.kernels[1:])})


def _like(
    model: Evaluation, task: Task, program: Program, number: int, *, right: bool
) -> Evaluation:
    changes: dict[str, object] = {"task": task.fingerprint, "program": program.id, "samples": ()}
    if right:
        ratio = 1 + number % 977 / 1000
        changes["predicted_us"] = 10 / ratio
        changes["speedups"] = (
            Speedup(baseline="compile", ratio=ratio, lower=ratio, upper=ratio, confidence=1.0,
                    kind="predicted"),
        )  # fmt: skip
    else:
        changes["status"] = Status.WRONG
    return model.model_copy(update=changes)


if __name__ == "__main__":
    source, target, wanted = sys.argv[1:]
    with KernelStore(source, must_exist=True) as known:
        detail = next(known.show(c.candidate_id) for c in known.best(limit=1))
    began = time.monotonic()
    with KernelStore(target) as opened:
        seed(
            opened, detail.evaluations[0].evaluation, detail.program,
            evaluations=int(wanted), among=400,
        )  # fmt: skip
    print(f"{time.monotonic() - began:.0f} s")
