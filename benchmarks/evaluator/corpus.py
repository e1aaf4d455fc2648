"""Puts every mutant and cheat of the corpus before the judge under many secrets: none may pass.

python -m benchmarks.evaluator corpus [--secrets N] [--jobs N] [--minutes M] [--json FILE]

Every secret draws other inputs and shapes; what passes under one of many was stopped by luck. Under
the first secret a mutant gets its whole verdict, whose status has to be the right one. Under the
others it is compiled once and run on the visible cases in turn, until one refuses it; what none
refuses gets its whole verdict there too. What a rule of the text or the compiler refuses hangs on
no secret. A line of JSON for each mutant goes to the file; a run that was stopped goes on there.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from benchmarks.evaluator.first_refusal import FirstRefusals, is_refusal
from benchmarks.evaluator.process_pool import append_line, processes, shard_of, whole_lines
from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.corpus import Mutant, cast_mutants, mutants
from kernelwright.evaluator.attacks.plain import plain_allclose
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation, Stage
from kernelwright.evaluator.worker.start import open_worker

_MEMORY = 8 << 30
_LARGEST_UNIT = 16
_RUN_TIMEOUT_S = 2.0
_NO_VERDICT = "no verdict"
_SECRETLESS = (Stage.STATIC, Stage.COMPILE)
_CASES = "a case"


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant under all secrets."""

    mutant: str
    program: str
    class_: str
    evaluator_version: int
    seed: str
    secrets: int
    stage: str
    """The stage that refused it under the first secret."""
    status: str
    is_right: bool
    """The status is one of those that the mutant deserves."""
    refused: int
    """Secrets under which it was refused."""
    by: dict[str, int]
    """How often what refused it: the case, or else the stage of a whole verdict."""
    accepted_under: list[str]
    seconds: float


@dataclass(frozen=True)
class Unit:
    """Mutants of one task, by their places, to be judged on the same cases."""

    seed: str
    secrets: int
    places: tuple[int, ...]
    ends: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge what the file does not hold yet, then print the counts.

    Raises:
        SystemExit: a mutant was accepted, or the time was over before all had been judged.
    """
    chosen = _parser().parse_args(arguments)
    units = _units(chosen)
    count = sum(len(unit.places) for unit in units)
    before = _known(chosen)
    print(f"{count} mutants to judge under {chosen.secrets} secrets", flush=True)
    found = list(_written(_judged(units, chosen.jobs), chosen.json))
    outcomes = [*before, *found]
    print(json.dumps(summary(outcomes), indent=2))
    if chosen.plain:
        print(f"{_plainly_rejected(broken())} are rejected by a plain allclose")
    if len(found) < count:
        print(f"{count - len(found)} were not judged: the time was over, or the machine failed")
    if len(found) < count or any(o.accepted_under for o in outcomes):
        raise SystemExit(1)


def summary(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Count programs, verdicts and what gave them."""
    by = Counter[str]()
    for outcome in outcomes:
        by.update(outcome.by)
    return {
        "mutants": len(outcomes),
        "verdicts": sum(o.secrets for o in outcomes),
        "refused": sum(o.refused for o in outcomes),
        "refused under every secret": sum(o.refused == o.secrets for o in outcomes),
        "refused whatever the secret": sum(o.stage in _SECRETLESS for o in outcomes),
        "with the right status": sum(o.is_right for o in outcomes),
        "refused by": dict(by.most_common()),
        "accepted": {o.mutant: o.accepted_under for o in outcomes if o.accepted_under},
        "other status": {o.mutant: o.status for o in outcomes if not o.is_right},
        "classes": dict(sorted(Counter(o.class_ for o in outcomes).items())),
        "seconds": round(sum(o.seconds for o in outcomes)),
    }


@cache
def broken() -> tuple[Mutant, ...]:
    """Return what must be refused, in all dtypes: not what only looks broken, or is harmless."""
    every = (*mutants(), *cast_mutants())
    return tuple(m for m in every if all(map(is_refusal, m.edit.expect)))


def read(path: Path | None) -> list[Outcome]:
    """Return what a results file holds."""
    return [Outcome(**json.loads(line)) for line in whole_lines(path)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evaluator corpus", description=__doc__
    )
    parser.add_argument("--secrets", type=int, default=1, help="how many to judge everything under")
    parser.add_argument("--seed", default="corpus", help="what the secrets begin with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="1/1", help="which part of the work, such as 2/6")
    parser.add_argument("--minutes", type=float, help="begin nothing new after this long")
    parser.add_argument("--only", default="", help="mutants whose name holds this text")
    parser.add_argument("--json", type=Path, help="a file for a line of JSON per mutant")
    parser.add_argument("--plain", action="store_true", help="put a plain allclose beside it")
    return parser


def _known(chosen: argparse.Namespace) -> list[Outcome]:
    """Return what has been judged already by this judge, under as many secrets."""
    names = {mutant.name for mutant in broken()}
    return [
        outcome
        for outcome in read(chosen.json)
        if outcome.mutant in names
        and (outcome.seed, outcome.evaluator_version) == (chosen.seed, EVALUATOR_VERSION)
        and outcome.secrets >= chosen.secrets
    ]


def _units(chosen: argparse.Namespace) -> list[Unit]:
    every = broken()
    share, shares = shard_of(chosen.shard)
    known = {(outcome.mutant, outcome.program) for outcome in _known(chosen)}
    places = [i for i, mutant in enumerate(every) if chosen.only in mutant.name]
    places.sort(key=lambda i: (every[i].task.fingerprint, i))
    groups = [list(g) for _, g in groupby(places, lambda i: every[i].task.fingerprint)]
    batches = [g[i : i + _LARGEST_UNIT] for g in groups for i in range(0, len(g), _LARGEST_UNIT)]
    ends = time.monotonic() + chosen.minutes * 60 if chosen.minutes else None
    left = [
        tuple(i for i in batch if (every[i].name, every[i].program.id) not in known)
        for batch in batches[share - 1 :: shares]
    ]
    return [Unit(chosen.seed, chosen.secrets, places, ends) for places in left if places]


def _judged(units: Sequence[Unit], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        for unit in units:
            yield from judge(unit)
        return
    with processes(jobs) as pool:
        waiting = [pool.submit(_all_of, unit) for unit in units]
        for done in as_completed(waiting):
            yield from done.result()


def _all_of(unit: Unit) -> list[Outcome]:
    return list(judge(unit))


def _written(outcomes: Iterator[Outcome], path: Path | None) -> Iterator[Outcome]:
    for outcome in outcomes:
        if path:
            append_line(path, json.dumps(asdict(outcome)))
        if outcome.accepted_under or not outcome.is_right:
            under = ", ".join(outcome.accepted_under) or "none"
            print(f"{outcome.mutant}: {outcome.status}; accepted under {under}", flush=True)
        yield outcome


def judge(unit: Unit) -> Iterator[Outcome]:
    """Judge the mutants of a unit under every secret."""
    names = [f"{unit.seed}-{number}" for number in range(unit.secrets)]
    bench = _Bench()
    try:
        for place in unit.places:
            # time.monotonic() is the same clock in all processes of a machine.
            if unit.ends is not None and time.monotonic() > unit.ends:
                break
            try:
                yield bench.outcome(broken()[place], unit.seed, names)
            except DeviceError as e:
                print(f"{broken()[place].name}: {_NO_VERDICT}: {e}", flush=True)
                bench.close()
                bench = _Bench()
    finally:
        bench.close()


class _Bench:
    """Judges mutants in whole and by their first refusal, each in a warm worker of its own."""

    def __init__(self) -> None:
        config = EvaluatorConfig(run_timeout_s=_RUN_TIMEOUT_S)
        self._evaluator = Evaluator(config=config)
        self._first = FirstRefusals(config)

    def close(self) -> None:
        self._evaluator.close()
        self._first.close()

    def outcome(self, mutant: Mutant, seed: str, secrets: Sequence[str]) -> Outcome:
        """Judge one mutant under every secret.

        Raises:
            DeviceError: the machine failed.
        """
        started = time.perf_counter()
        whole = self._whole(mutant, secrets[0])
        stage = whole.stages[-1].stage if is_refusal(whole.status) else None
        by, accepted = Counter[str](), list[str]()
        if stage in _SECRETLESS:
            by[stage] = len(secrets)
        else:
            self._note(whole, secrets[0], by, accepted)
            for secret, failure in self._first.under(mutant.task, mutant.program, secrets[1:]):
                if failure is not None:
                    by[_CASES] += 1
                else:
                    self._note(self._whole(mutant, secret), secret, by, accepted)
        return Outcome(
            mutant=mutant.name,
            program=mutant.program.id,
            class_=mutant.edit.class_,
            evaluator_version=EVALUATOR_VERSION,
            seed=seed,
            secrets=len(secrets),
            stage=stage or "",
            status=whole.status,
            is_right=whole.status in mutant.edit.expect,
            refused=by.total(),
            by=dict(by),
            accepted_under=accepted,
            seconds=round(time.perf_counter() - started, 2),
        )

    def _whole(self, mutant: Mutant, secret: str) -> Evaluation:
        self._evaluator.start_over(EvaluatorConfig(secret=secret, run_timeout_s=_RUN_TIMEOUT_S))
        return self._evaluator.evaluate(mutant.task, mutant.program)

    def _note(self, whole: Evaluation, secret: str, by: Counter[str], accepted: list[str]) -> None:
        if is_refusal(whole.status):
            by[whole.stages[-1].stage] += 1
        else:
            accepted.append(secret)


def _plainly_rejected(every: Sequence[Mutant]) -> int:
    rejected = 0
    worker, _ = open_worker("simulator", _MEMORY)
    for mutant in every:
        if not worker.is_alive:
            worker, _ = open_worker("simulator", _MEMORY)
        rejected += not plain_allclose(worker, mutant.task, mutant.program)
    worker.close()
    return rejected
