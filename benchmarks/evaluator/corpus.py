"""Runs the whole corpus: every mutant, every honest kernel, and a plain allclose beside them.

python -m benchmarks.evaluator corpus [--secrets N] [--json FILE]

Every secret draws other inputs and shapes; what passes under one of many was stopped by luck.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernelwright.evaluator.attacks.corpus import Mutant, cast_mutants, mutants
from kernelwright.evaluator.attacks.honest import all_honest
from kernelwright.evaluator.attacks.plain import plain_allclose
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.worker.start import open_worker

_MEMORY = 8 << 30
_RIGHT = ("correct", "promoted")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores and write them where asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evaluator corpus", description=__doc__
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--secrets", type=int, default=1, help="how many to judge everything under")
    chosen = parser.parse_args(arguments)
    started = time.perf_counter()
    scores = {**_mutants(chosen.secrets), **_honest(chosen.secrets), "seconds": 0.0}
    scores["seconds"] = round(time.perf_counter() - started, 1)
    text = json.dumps(scores, indent=2)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


def _mutants(secrets: int) -> dict[str, object]:
    every = (*mutants(), *cast_mutants())
    broken = [m for m in every if m.edit.expect[0].value not in _RIGHT]
    passed = list[str]()
    for _ in range(secrets):
        with Evaluator(config=EvaluatorConfig(run_timeout_s=2)) as evaluator:
            for mutant in broken:
                found = evaluator.evaluate(mutant.task, mutant.program)
                if found.status not in mutant.edit.expect:
                    passed.append(f"{mutant.name}: {found.status}: {found.summary}")
    return {
        "secrets": secrets,
        "mutants": len(broken),
        "verdicts with the right status": secrets * len(broken) - len(passed),
        "others": passed,
        "rejected by a plain allclose": _plainly_rejected(broken),
        "classes": dict(sorted(Counter(m.edit.class_ for m in broken).items())),
    }


def _plainly_rejected(broken: Sequence[Mutant]) -> int:
    rejected = 0
    worker, _ = open_worker("simulator", _MEMORY)
    for mutant in broken:
        if not worker.is_alive:
            worker, _ = open_worker("simulator", _MEMORY)
        rejected += not plain_allclose(worker, mutant.task, mutant.program)
    worker.close()
    return rejected


def _honest(secrets: int) -> dict[str, object]:
    accepted, rejected = 0, []
    kernels = all_honest()
    for _ in range(secrets):
        with Evaluator() as evaluator:
            for kernel in kernels:
                found = evaluator.evaluate(kernel.task, kernel.program)
                accepted += found.is_correct
                if not found.is_correct:
                    rejected.append(f"{kernel.name}: {found.status}: {found.summary}")
    return {"honest kernels": len(kernels), "accepted": accepted, "rejections": rejected}
