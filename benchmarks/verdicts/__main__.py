"""Judges the same programs on the simulator and on a GPU and shows where the verdicts differ.

Every template family over the catalog's tasks at three dtypes (in small shapes), the honest
corpus, and every mutant. The simulator's verdicts can come from a file made elsewhere:

    python -m benchmarks.verdicts --device simulator --out simulator.json
    python -m benchmarks.verdicts --device cuda --expected simulator.json --out cuda.json

Files that `kernelwright doctor --deep` wrote become the table of docs/evidence.md:

    python -m benchmarks.verdicts --from m2.json m4.json

Exits with 1 when a verdict differs.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.evidence.agreement import agreement_table, with_agreement
from kernelwright.evaluator.evidence.judging import judge
from kernelwright.evaluator.evidence.record import Evidence
from kernelwright.evaluator.evidence.result import Comparison, Finding, Row
from kernelwright.evaluator.evidence.subject import KINDS, Selection, subjects

_PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
_THROUGH = {
    "determinism": Stage.DETERMINISM,
    "timing": Stage.TIMING,
    "confirmation": Stage.CONFIRMATION,
}


def main() -> int:
    """Judge, print the table, write the file; return the process's exit status."""
    chosen = _parser().parse_args()
    try:
        return _run(chosen)
    except KernelwrightError as e:
        print(e, file=sys.stderr)
        return 1


def _read_back(paths: list[Path]) -> int:
    """Update the page's table of agreement; return 1 where a file tells of a disagreement."""
    evidence = [Evidence.load(path) for path in paths]
    table = agreement_table(evidence)
    _PAGE.write_text(with_agreement(_PAGE.read_text(), table))
    print(table)
    return 1 if any(one.disagreements for one in evidence) else 0


def _run(chosen: argparse.Namespace) -> int:
    if chosen.files:
        return _read_back(chosen.files)
    started = time.monotonic()
    devices = ("simulator",) if chosen.device == "simulator" else ("simulator", chosen.device)
    known = _known(chosen.expected)
    groups = subjects(
        Selection(
            kinds=tuple(kind for kind in KINDS if kind in chosen.kinds.split(",")),
            only=tuple(word for word in chosen.only.split(",") if word),
            schedules=chosen.schedules,
            is_small=not chosen.own_shapes,
        )
    )
    config = EvaluatorConfig(secret="verdicts", through=_THROUGH[chosen.through], run_timeout_s=10)
    # Samples of two programs on one GPU at once would time each other.
    jobs = chosen.jobs if chosen.through == "determinism" else 1
    limit_s = chosen.limit_s - (time.monotonic() - started)
    rows = list[Row]()
    try:
        for row in judge(groups, devices, config, jobs=jobs, limit_s=limit_s, known=known):
            rows.append(row)
            if len(rows) % 100 == 0:
                print(f"{len(rows)} judged, {time.monotonic() - started:.0f} s", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(rows)} of {sum(map(len, groups))}", file=sys.stderr)
    found = Comparison(
        devices=devices,
        through=chosen.through,
        subjects=sum(map(len, groups)),
        seconds=time.monotonic() - started,
        rows=tuple(rows),
    )
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(found.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    print(found.table())
    return 1 if any(row.differs for row in rows) else 0


def _known(path: Path | None) -> dict[str, Finding]:
    if path is None:
        return {}
    return {row.name: row.findings["simulator"] for row in Comparison.load(path).rows}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", help="simulator, metal or cuda")
    parser.add_argument("--expected", type=Path, help="the simulator's verdicts, made elsewhere")
    parser.add_argument(
        "--from", dest="files", type=Path, nargs="+", help="files that doctor --deep wrote"
    )
    parser.add_argument("--out", type=Path, help="write everything here as JSON")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of template,honest,mutant")
    parser.add_argument("--only", default="", help="names to judge, or parts of them")
    parser.add_argument("--schedules", type=int, default=2, help="schedules of a template's region")
    parser.add_argument(
        "--own-shapes", action="store_true", help="judge catalog tasks at their own shapes"
    )
    parser.add_argument("--through", choices=tuple(_THROUGH), default="determinism")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--limit-s", type=float, default=540.0, help="stop after so many seconds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
