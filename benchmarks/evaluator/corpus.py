"""Runs the whole corpus: every mutant, every honest kernel, and a plain allclose beside them.

python benchmarks/evaluator/corpus.py [--json FILE]
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.mutants.corpus import honest, mutants
from kernelwright.evaluator.mutants.honest import honest_kernels
from kernelwright.evaluator.mutants.plain import plain_allclose
from kernelwright.evaluator.opening import open_worker

_MEMORY = 8 << 30
_RIGHT = ("correct", "promoted")


def main() -> None:
    """Print the scores and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    started = time.perf_counter()
    scores = {**_mutants(), **_honest(), "seconds": 0.0}
    scores["seconds"] = round(time.perf_counter() - started, 1)
    text = json.dumps(scores, indent=2)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


def _mutants() -> dict[str, object]:
    broken = [m for m in mutants() if m.edit.expect[0].value not in _RIGHT]
    caught, classes, plain_caught = 0, Counter[str](), 0
    worker, _ = open_worker("simulator", _MEMORY)
    with Evaluator(config=EvaluatorConfig(run_timeout_s=2)) as evaluator:
        for mutant in broken:
            found = evaluator.evaluate(mutant.task, mutant.program)
            caught += found.status in mutant.edit.expect
            classes[mutant.edit.class_] += 1
            if not worker.is_alive:
                worker, _ = open_worker("simulator", _MEMORY)
            plain_caught += not plain_allclose(worker, mutant.task, mutant.program)
    worker.close()
    return {
        "mutants": len(broken),
        "rejected with the right status": caught,
        "rejected by a plain allclose": plain_caught,
        "classes": dict(sorted(classes.items())),
    }


def _honest() -> dict[str, object]:
    accepted, rejected = 0, []
    programs = [(n, t, p) for n, t, p in honest()]
    programs += [(k.name, k.task, k.program) for k in honest_kernels()]
    with Evaluator() as evaluator:
        for name, task, program in programs:
            found = evaluator.evaluate(task, program)
            accepted += found.is_correct
            if not found.is_correct:
                rejected.append(f"{name}: {found.status}: {found.summary}")
    return {"honest kernels": len(programs), "accepted": accepted, "rejections": rejected}


if __name__ == "__main__":
    main()
