"""Solves every catalog task with the offline agents and writes `docs/catalog.md`.

python -m benchmarks.coverage.catalog [--only softmax,gelu] [--part 1/3] [--confirm] [--state FILE]

Every task is solved in float16, every seventh in bfloat16 and float32 too. What was found is kept,
a line a task: a run that was stopped goes on where it was, and several can share the work, each
with a part of its own. `--confirm` takes what is solved through the hidden gate and the
confirmation too. `--page` writes the page from what is kept.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from benchmarks.coverage.catalog_page import markdown
from benchmarks.coverage.solution import Ledger, Solution
from kernelwright import catalog, ir
from kernelwright.catalog import Entry
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule
from kernelwright.plan import partition

_ATTEMPTS = 3
_OUT = Path("docs/catalog.md")
_STATE = Path(".catalog.jsonl")
_DTYPE = Dtype.FLOAT16
_SAMPLED = (Dtype.BFLOAT16, Dtype.FLOAT32)
_EVERY = 7


def solve(entry: Entry, dtype: Dtype, evaluator: Evaluator) -> Solution:
    """Plan, lower and evaluate one task."""
    began = time.perf_counter()
    zeros = [mx.zeros(t.shape, _mlx(t.dtype)) for t in entry.types(dtype)]
    graph = ir.gather_attention(ir.canonicalize(ir.capture(entry.function, *zeros)))
    regions = partition(graph)
    covered = {i for region in regions for i in region.indices}
    left = tuple(
        node.op
        for i, node in enumerate(graph.nodes)
        if i not in covered and ir.op_named(node.op).kind is not ir.Kind.VIEW
    )
    proved, problem = 0, ""
    for region in regions:
        verdict = _prove(Task(region.extract(), entry.name), evaluator)
        proved += not verdict
        problem = problem or verdict
    solution = Solution(entry.name, dtype.short, len(regions), proved, left, problem)
    is_confirmed = solution.is_solved and evaluator.config.through is Stage.CONFIRMATION
    took_s = round(time.perf_counter() - began, 1)
    return replace(solution, is_confirmed=is_confirmed, took_s=took_s)


def _prove(task: Task, evaluator: Evaluator) -> str:
    """Return nothing when a schedule passes the evaluator, else why the last did not."""
    verdict = ""
    try:
        tried = schedules(task.graph, evaluator.info)[:_ATTEMPTS]
    except KernelwrightError as e:
        return str(e)
    for schedule in tried:
        verdict = _verdict(task, schedule, evaluator)
        if not verdict:
            return ""
    return verdict or "no schedule"


def _verdict(task: Task, schedule: Schedule, evaluator: Evaluator) -> str:
    """Return nothing when a schedule's program is correct, else what became of it."""
    try:
        program = lower(task.graph, schedule)
    except KernelwrightError as e:
        return str(e)
    except (LookupError, TypeError, ValueError) as e:
        # A defect of the compiler is one more line of the page, not the end of it.
        return f"lowering fails with {type(e).__name__}: {e}"
    evaluation = evaluator.evaluate(task, program)
    return "" if evaluation.is_correct else f"{evaluation.status}: {evaluation.summary}"


def _mlx(dtype: Dtype) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found


def wanted(only: str, part: str) -> Iterator[tuple[Entry, Dtype]]:
    """List the tasks to solve: those named, or one part of all, and the samples at other dtypes."""
    number, parts = map(int, part.split("/"))
    names = set(filter(None, only.split(",")))
    entries = [e for e in catalog.entries() if not names or e.name in names]
    pairs = [(entry, _DTYPE) for entry in entries]
    pairs += [(entry, dtype) for dtype in _SAMPLED for entry in entries[::_EVERY]]
    yield from pairs[number - 1 :: parts]


def main() -> None:
    """Solve the catalog, or a part of it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--state", type=Path, default=_STATE)
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    mx.set_default_device(mx.cpu)
    ledger = Ledger(arguments.state)
    if not arguments.page:
        through = Stage.CONFIRMATION if arguments.confirm else Stage.TIMING
        config = EvaluatorConfig(secret="catalog", through=through)
        with Evaluator("simulator", config) as evaluator:
            for entry, dtype in wanted(arguments.only, arguments.part):
                known = ledger.find(entry.name, dtype)
                if _is_due(known, confirm=arguments.confirm):
                    solution = solve(entry, dtype, evaluator)
                    ledger.keep(solution)
                    print(solution.line(), flush=True)
    _write_page(Ledger(arguments.state))


def _is_due(known: Solution | None, *, confirm: bool) -> bool:
    if known is None or not confirm:
        return known is None
    return known.is_solved and not known.is_confirmed


def _write_page(ledger: Ledger) -> None:
    """Write the page once every task has been tried."""
    found = [ledger.find(entry.name, _DTYPE) for entry in catalog.entries()]
    solutions = [solution for solution in found if solution is not None]
    if len(solutions) < len(found):
        print(f"{len(found) - len(solutions)} tasks are not tried yet; the page is not written")
        return
    sampled = [ledger.find(e.name, d) for d in _SAMPLED for e in catalog.entries()[::_EVERY]]
    _OUT.write_text(markdown(solutions, [s for s in sampled if s is not None]))


if __name__ == "__main__":
    main()
