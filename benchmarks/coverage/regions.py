"""Proves the regions that the planner chooses in mlx-lm's families, and writes `docs/regions.md`.

python -m benchmarks.coverage.regions [--only llama,mamba] [--sample 400] [--state FILE]

Every distinct region (by fingerprint) is lowered with its first schedule and evaluated on the
simulator; a sample takes the smallest fingerprints, which is an even draw. What was found is kept,
a line a region, so a sweep that was stopped goes on where it was; a verdict counts while lowering
writes the same program.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from benchmarks.coverage.configuration import Architecture, architectures
from benchmarks.coverage.finding import Finding, Occurrence, Record
from benchmarks.coverage.regions_page import page
from benchmarks.coverage.step import Step, steps
from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule, render
from kernelwright.plan import partition

PAGE = Path(__file__).parents[2] / "docs" / "regions.md"
_STATE = Path(".regions.jsonl")
_ATTEMPTS = 3


def main() -> int:
    """Collect the regions, prove those without a verdict, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--sample", type=int, default=sys.maxsize, help="regions to prove")
    parser.add_argument("--state", type=Path, default=_STATE)
    options = parser.parse_args()
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    record = Record(options.state)
    wanted = set(filter(None, options.only.split(",")))
    found = collect([a for a in architectures() if not wanted or a.name in wanted])
    print(f"{len(found)} distinct regions", flush=True)
    sample = sorted(found, key=lambda o: o.fingerprint)[: options.sample]
    with Evaluator("simulator", EvaluatorConfig(secret="regions")) as evaluator:
        for occurrence in sample:
            finding = record.find(occurrence.fingerprint)
            if not _stands(finding, occurrence, evaluator):
                finding = prove(occurrence, evaluator)
                record.keep(finding)
                print(finding.line(), flush=True)
    proved = [(o, f) for o in sample if (f := record.find(o.fingerprint)) is not None]
    print(f"{sum(f.passed for _, f in proved)} of {len(proved)} regions pass")
    if not wanted:
        PAGE.write_text(page(proved, len(found)))
    return 0


def collect(families: Sequence[Architecture]) -> list[Occurrence]:
    """Return the distinct regions of all steps of some families, in the order of discovery."""
    found: dict[str, Occurrence] = {}
    for architecture in families:
        for region in _regions(architecture):
            graph = region.extract()
            known = found.setdefault(graph.fingerprint, Occurrence(graph, graph.fingerprint))
            known.families.setdefault(architecture.name)
    return list(found.values())


def _regions(architecture: Architecture) -> list[ir.Region]:
    """Return what the planner chooses in a family; nothing where the model cannot be captured."""
    mx.random.seed(7)
    try:
        model = architecture.build()
        mx.eval(model.parameters())  # type: ignore[attr-defined]
        return [
            region for _, step, arrays in steps(model) for region in partition(_graph(step, arrays))
        ]
    except (KernelwrightError, ValueError) as e:
        print(f"{architecture.name}: {e}", flush=True)
        return []


def _graph(step: Step, arrays: Sequence[mx.array]) -> ir.Graph:
    """Return what a campaign would plan."""
    return ir.gather_attention(ir.canonicalize(ir.capture(step, *arrays)))


def prove(occurrence: Occurrence, evaluator: Evaluator) -> Finding:
    """Evaluate the first schedule of a region; where it fails, say whether a later one passes."""
    began = time.perf_counter()
    task = Task(occurrence.graph, occurrence.kind)
    problems: list[str] = []
    first = ""
    for schedule in _schedules(task, evaluator, problems):
        program = _written(task, schedule, problems)
        if program is None:
            continue
        first = first or program.id
        problem = _problem(task, program, evaluator)
        if not problem:
            break
        problems.append(f"{render(schedule)}: {problem}")
    else:
        problems.append("no schedule passes")
    return Finding(
        fingerprint=occurrence.fingerprint,
        kind=occurrence.kind,
        program=first,
        problems=tuple(problems),
        took_s=round(time.perf_counter() - began, 2),
    )


def _problem(task: Task, program: Program, evaluator: Evaluator) -> str:
    """Return why a program is refused, nothing where it is correct."""
    try:
        evaluation = evaluator.evaluate(task, program)
    except Exception as e:
        return f"evaluating fails with {type(e).__name__}: {e}"
    return "" if evaluation.is_correct else f"{evaluation.status}: {evaluation.summary}"


def _schedules(task: Task, evaluator: Evaluator, problems: list[str]) -> Sequence[Schedule]:
    """Return what to try; a region that no family computes should not have been chosen."""
    try:
        return schedules(task.graph, evaluator.info)[:_ATTEMPTS]
    except Exception as e:
        problems.append(f"scheduling fails with {type(e).__name__}: {e}")
        return ()


def _written(task: Task, schedule: Schedule, problems: list[str]) -> Program | None:
    """Lower a task; a defect of the compiler is a line of the page, not the end of the sweep."""
    try:
        return lower(task.graph, schedule)
    except Exception as e:
        problems.append(f"{render(schedule)}: lowering fails with {type(e).__name__}: {e}")
        return None


def _stands(finding: Finding | None, occurrence: Occurrence, evaluator: Evaluator) -> bool:
    """Say whether a verdict is good and about the program that lowering writes today."""
    if finding is None or not finding.passed:
        return False
    return finding.program == _program_id(occurrence, evaluator)


def _program_id(occurrence: Occurrence, evaluator: Evaluator) -> str:
    """Return the id of the first program that lowering writes now; empty where it fails."""
    task = Task(occurrence.graph, occurrence.kind)
    written = (_written(task, s, []) for s in _schedules(task, evaluator, []))
    return next((program.id for program in written if program is not None), "")


if __name__ == "__main__":
    sys.exit(main())
