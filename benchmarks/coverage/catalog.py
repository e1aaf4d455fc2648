"""Solves every catalog task with the offline agents and writes `docs/catalog.md`.

python -m benchmarks.coverage.catalog [--dtype f16] [--only softmax,gelu]
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from kernelwright import catalog, ir
from kernelwright.catalog import Entry
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.task import Task
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule

_ATTEMPTS = 3
_OUT = Path("docs/catalog.md")


@dataclass(frozen=True)
class Solution:
    """What the offline agents make of one task."""

    entry: Entry
    regions: int
    proved: int
    left: tuple[str, ...]
    """Ops that no region covers, views aside."""
    problem: str = ""

    @property
    def is_solved(self) -> bool:
        """True when verified kernels do all the work."""
        return self.regions > 0 and self.proved == self.regions and not self.left


def solve(entry: Entry, dtype: Dtype, evaluator: Evaluator) -> Solution:
    """Plan, lower and evaluate one task."""
    zeros = [mx.zeros(t.shape, _mlx(t.dtype)) for t in entry.types(dtype)]
    graph = ir.gather_attention(ir.canonicalize(ir.capture(entry.function, *zeros)))
    regions = ir.partition(graph)
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
    return Solution(entry, len(regions), proved, left, problem)


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


def markdown(solutions: list[Solution], dtype: Dtype) -> str:
    """Render the catalog with what the offline coder reaches."""
    solved = sum(s.is_solved for s in solutions)
    lines = [
        "# The catalog",
        "",
        (
            f"{len(solutions)} ready tasks; at {dtype} the offline planner and coder solve "
            f"{solved} of them whole: every op but views runs in kernels that pass the "
            "evaluator on the simulator."
        ),
        "",
        (
            "Made by `python -m benchmarks.coverage.catalog`; search one with "
            "`kernelwright search catalog:NAME`."
        ),
    ]
    group = ""
    for solution in solutions:
        if solution.entry.group != group:
            group = solution.entry.group
            lines += ["", f"## {group}", "", "| task | computes | kernels | left to MLX |"]
            lines += ["|---|---|---|---|"]
        lines.append(_row(solution))
    return "\n".join(lines) + "\n"


def _row(solution: Solution) -> str:
    kernels = f"{solution.proved}" if solution.proved == solution.regions else "not yet"
    mark = "✓" if solution.is_solved else "–"
    words = (solution.problem.split(". ")[0].rstrip("."), ", ".join(dict.fromkeys(solution.left)))
    left = "; ".join(filter(None, words)) or ("" if solution.regions else "views alone")
    return f"| `{solution.entry.name}` | {solution.entry.summary} | {mark} {kernels} | {left} |"


def main() -> None:
    """Solve the catalog and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    dtype = Dtype.parse(arguments.dtype)
    mx.set_default_device(mx.cpu)
    wanted = arguments.only.split(",") if arguments.only else []
    solutions = []
    with Evaluator("simulator") as evaluator:
        for entry in catalog.entries():
            if wanted and entry.name not in wanted:
                continue
            began = time.perf_counter()
            solution = solve(entry, dtype, evaluator)
            solutions.append(solution)
            took_s = time.perf_counter() - began
            mark = "solved" if solution.is_solved else "left"
            print(
                f"{entry.name:26s} {mark:7s} {solution.proved}/{solution.regions} "
                f"{took_s:5.1f} s {' '.join(solution.left)} {solution.problem[:120]}",
                flush=True,
            )
    if not wanted:
        _OUT.write_text(markdown(solutions, dtype))


if __name__ == "__main__":
    main()
