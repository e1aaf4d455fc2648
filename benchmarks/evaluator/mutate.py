"""Breaks right kernels in thousands of ways and counts what the evaluator refuses, and where.

python -m benchmarks.evaluator mutate --count 5000 --seed 1 --jobs 16 --out results.jsonl

One line of JSON for each mutant goes to the results file; a run that was stopped goes on where it
was. `--shard 2/3` does a third of the work. `--report` prints what a file holds, and each survivor
that `survivors.toml` does not explain.
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evaluator.process_pool import append_line, processes, shard_of, whole_lines
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.attacks.mutate.judging import Examiner
from kernelwright.evaluator.attacks.mutate.record import Outcome
from kernelwright.evaluator.attacks.mutate.sample import Share, shares
from kernelwright.evaluator.attacks.mutate.summary import Summary
from kernelwright.evaluator.attacks.mutate.survivor import explanations
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage

_RUN_TIMEOUT_S = {"small": 3.0, "real": 20.0}
_STEPS = 4_000_000
"""How many instructions a survivor's proof may run: some fifty seconds."""


@dataclass(frozen=True)
class Plan:
    """What every process of a run knows."""

    out: Path
    done: frozenset[str]
    secret: str
    run_timeout_s: float
    deadline_s: float
    """By the clock of all processes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the mutants that the arguments ask for, then print the table."""
    chosen = _parser().parse_args(arguments)
    if not chosen.report:
        _run(chosen)
    outcomes = read(chosen.out)
    summary = Summary.of(outcomes, explanations())
    print(summary.table, "", summary.sentence, sep="\n")
    for outcome in summary.unread:
        print(_line(outcome))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evaluator mutate", description=__doc__
    )
    parser.add_argument("--count", type=int, default=5000, help="mutants in all shards together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--shapes", choices=("real", "small"), default="real")
    parser.add_argument("--shard", default="1/1", help="which part of the work, such as 2/3")
    parser.add_argument("--tasks", type=int, help="break only so many, picked by the seed")
    parser.add_argument("--only", default="", help="tasks to break, separated by commas")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--report", action="store_true", help="judge nothing, print what is there")
    return parser


def _run(chosen: argparse.Namespace) -> None:
    started = time.time()
    plan = Plan(
        out=chosen.out,
        done=frozenset(outcome.id for outcome in read(chosen.out)),
        secret=f"mutants {chosen.seed}",
        run_timeout_s=_RUN_TIMEOUT_S[chosen.shapes],
        deadline_s=started + chosen.seconds,
    )
    only = frozenset(filter(None, chosen.only.split(",")))
    number, parts = shard_of(chosen.shard)
    every = shares(chosen.count, chosen.seed, chosen.shapes, most_sources=chosen.tasks, only=only)
    # Attention takes longest: begun last, it would keep one process busy after all others.
    work = sorted(every[number - 1 :: parts], key=lambda share: share.source.group != "attention")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with processes(chosen.jobs) as pool:
        pending = [pool.submit(judge_share, share, plan) for share in work]
        for count, future in enumerate(as_completed(pending), 1):
            for problem in future.result():
                print(problem, flush=True)
            if count % 20 == 0:
                print(f"{count} of {len(work)} tasks, {time.time() - started:.0f} s", flush=True)


def judge_share(share: Share, plan: Plan) -> list[str]:
    """Judge a source's mutants that are not in the file yet; return what went wrong besides."""
    problems = list[str]()
    config = EvaluatorConfig(
        secret=plan.secret, run_timeout_s=plan.run_timeout_s, through=Stage.CONFIRMATION
    )
    examiner = Examiner(lambda: Evaluator(config=config), steps=_STEPS)
    try:
        for base, drawn in share.draw() if time.time() < plan.deadline_s else ():
            mutants = [mutant for mutant in drawn if mutant.id not in plan.done]
            if not mutants or time.time() > plan.deadline_s:
                continue
            if refusal := examiner.refusal(base):
                problems.append(f"BASE REFUSED {share.source.label} {base.schedule}: {refusal}")
                continue
            for outcome in examiner.outcomes(base, mutants):
                append_line(plan.out, outcome.model_dump_json())
                if time.time() > plan.deadline_s:
                    break
    except KernelwrightError as e:
        problems.append(f"NO PROGRAM {share.source.label}: {e}")
    finally:
        examiner.close()
    return problems


def read(path: Path) -> list[Outcome]:
    """Return what a results file holds; each mutant once."""
    found = (Outcome.model_validate_json(line) for line in whole_lines(path))
    return list({outcome.id: outcome for outcome in found}.values())


def _line(outcome: Outcome) -> str:
    where = f"{outcome.task} {outcome.dtype} {outcome.schedule}"
    return f"SURVIVED [{outcome.operator}] {where}\n    {outcome.before}\n    {outcome.after}"
