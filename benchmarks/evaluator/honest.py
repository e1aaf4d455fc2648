"""Judges honest kernels under several secrets, through all stages: none may be refused.

python -m benchmarks.evaluator honest [--of SET] [--sample N] [--secrets N] [--jobs N]
    [--seconds S] [--json F]

The sets: `written` by hand in unusual styles, `lowered` in many schedules at small shapes and what
stands behind the corpus, what the templates make of the shipped `examples` and of the `catalog`.
Every secret draws other inputs and shapes. A few secrets at a time go round all kernels. A line of
JSON for each verdict goes to the file as it comes, and what this judge has said there is not asked
again: a run that was stopped goes on where it was.
Shards of one run take the same --seed; together they judge each kernel under each secret.

The kernels are ours, so what one is compiled to stays for its other secrets and processes: texts
are compiled as for any verdict, and each only once.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from typing import TypeVar

from benchmarks.evaluator.process_pool import append_line, processes, shard_of, whole_lines
from benchmarks.evaluator.template_kernels import catalog_kernels, example_kernels
from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.attacks.honest import HonestKernel, all_honest, written_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Stage
from kernelwright.evaluator.worker.start import ready_cache

_LARGEST_UNIT = 12
"""Kernels of one task that are judged in a row, on the same cases."""
_AT_A_TIME = 4
"""Secrets under which they are, before the next ones of any kernel come."""
_NO_VERDICT = "no verdict"
T = TypeVar("T")
SETS: dict[str, Callable[[], tuple[HonestKernel, ...]]] = {
    "written": written_kernels,
    "lowered": all_honest,
    "examples": example_kernels,
    "catalog": catalog_kernels,
}


@dataclass(frozen=True)
class Unit:
    """Kernels of one task, by their places in a set, to be judged under some secrets."""

    of: str
    through: Stage
    left: tuple[tuple[str, tuple[int, ...]], ...]
    """Each secret with the places that are left."""

    @property
    def count(self) -> int:
        """How many verdicts are left."""
        return sum(len(places) for _, places in self.left)


@dataclass(frozen=True)
class Means:
    """What the processes of a run share."""

    builds: Path
    """Where what kernels are compiled to stays."""
    results: Path | None
    ends: float | None
    """By `time.monotonic()`, the same clock in all processes of a machine."""


@dataclass(frozen=True)
class Judgement:
    """What came of one kernel under one secret."""

    kernel: str
    program: str
    task: str
    secret: str
    status: str
    accepted: bool
    summary: str
    seconds: float
    evaluator_version: int = 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the refusals and how many were accepted.

    Raises:
        SystemExit: a kernel was refused, or the time was over before all had been judged.
    """
    chosen = _parser().parse_args(arguments)
    share, shares = shard_of(chosen.shard)
    ends = time.monotonic() + chosen.seconds if chosen.seconds is not None else None
    names = [f"{chosen.seed}-{n}" for n in range(chosen.secrets)]
    kernels = _chosen(chosen)
    units = _units(names, kernels, chosen)[share - 1 :: shares]
    before = _accepted_before(chosen.json, chosen.of, names, kernels)
    known = {(j.program, j.task, j.secret) for j in before}
    units = [left for unit in units if (left := _without(unit, known)).left]
    count = sum(unit.count for unit in units)
    print(f"seed {chosen.seed}, shard {share}/{shares}: {count} to judge", flush=True)
    with TemporaryDirectory() as builds:
        means = Means(Path(builds), chosen.json, ends)
        found = list(_judged(units, chosen.jobs, means))
    _conclude([*before, *found], chosen.secrets, left=count - len(found))


def _conclude(found: Sequence[Judgement], secrets: int, left: int) -> None:
    refused = sum(not j.accepted for j in found)
    accepted = Counter((j.program, j.task) for j in found if j.accepted)
    kernels = len({(j.program, j.task) for j in found})
    print(
        f"{len(found)} judged, of {kernels} kernels x {secrets} secrets: "
        f"{len(found) - refused} accepted, {refused} refused"
    )
    print(f"{sum(n >= secrets for n in accepted.values())} kernels under all {secrets} secrets")
    if found:
        print(f"{sum(j.seconds for j in found) / len(found):.2f} s a verdict")
    for judgement in (j for j in found if not j.accepted):
        print(f"{judgement.kernel} under {judgement.secret}: {judgement.summary}")
    if left:
        print(f"{left} were not judged: the time was over, or the machine failed")
    if refused or left:
        raise SystemExit(1)


def read(path: Path | None) -> list[Judgement]:
    """Return what this judge said in a results file, without what got no verdict."""
    found = (Judgement(**json.loads(line)) for line in whole_lines(path))
    return [
        judgement
        for judgement in found
        if judgement.status != _NO_VERDICT and judgement.evaluator_version == EVALUATOR_VERSION
    ]


def _accepted_before(
    path: Path | None, of: str, secrets: Sequence[str], places: Sequence[int]
) -> list[Judgement]:
    """Return what a results file holds, so that it need not be asked again.

    What was refused is: its kernel, or the judge, may have been mended.
    """
    kernels = SETS[of]()
    own = {_name(kernels[place]) for place in places}
    found = (j for j in read(path) if j.accepted and j.secret in secrets)
    return [judgement for judgement in found if (judgement.program, judgement.task) in own]


def _without(unit: Unit, known: set[tuple[str, str, str]]) -> Unit:
    """Leave out what has been judged."""
    kernels = SETS[unit.of]()
    left = (
        (secret, tuple(p for p in places if (*_name(kernels[p]), secret) not in known))
        for secret, places in unit.left
    )
    return replace(unit, left=tuple(one for one in left if one[1]))


def _name(kernel: HonestKernel) -> tuple[str, str]:
    return kernel.program.id, kernel.task.fingerprint


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="honest", description=__doc__)
    parser.add_argument("--of", choices=SETS, default="written", help="which kernels")
    parser.add_argument(
        "--through", type=Stage, default=Stage.CONFIRMATION, help="the last stage that judges"
    )
    parser.add_argument("--every", type=int, default=1, help="of the tasks, every so many")
    parser.add_argument("--sample", type=int, help="so many kernels, drawn by the seed")
    parser.add_argument("--secrets", type=int, default=1, help="how many to judge everything under")
    parser.add_argument("--seed", default="honest", help="what the secrets begin with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="1/1", help="which part of the work, such as 2/6")
    parser.add_argument("--seconds", type=float, help="end after this long")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--json", type=Path, help="a file for a line of JSON per verdict")
    return parser


def _chosen(chosen: argparse.Namespace) -> list[int]:
    """Return the places of the kernels to judge, those of one task together.

    A task's cases are drawn once for all of them.
    """
    kernels = SETS[chosen.of]()
    places = [i for i, kernel in enumerate(kernels) if chosen.only in kernel.name]
    if chosen.sample is not None:
        places = Random(chosen.seed).sample(places, min(chosen.sample, len(places)))
    return sorted(places, key=lambda i: (kernels[i].task.fingerprint, i))


def _units(names: Sequence[str], places: Sequence[int], chosen: argparse.Namespace) -> list[Unit]:
    kernels = SETS[chosen.of]()
    batches = [
        tuple(batch)
        for _, group in groupby(places, lambda i: kernels[i].task.fingerprint)
        for batch in _chunks(list(group), _LARGEST_UNIT)
    ]
    return [
        Unit(chosen.of, chosen.through, tuple((name, batch) for name in some))
        for some in _chunks(names, _AT_A_TIME)
        for batch in batches[:: chosen.every]
    ]


def _chunks(all_: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_), most):
        yield all_[start : start + most]


def _judged(units: Sequence[Unit], jobs: int, means: Means) -> Iterator[Judgement]:
    if jobs == 1:
        for unit in units:
            yield from _judge(unit, means)
        return
    # Each of them would build the headers for itself.
    ready_cache(EvaluatorConfig().memory_bytes, ("safe",))
    with processes(jobs) as pool:
        waiting = [pool.submit(_judge, unit, means) for unit in units]
        for done in as_completed(waiting):
            yield from done.result()


def _judge(unit: Unit, means: Means) -> list[Judgement]:
    if means.ends is not None and time.monotonic() > means.ends:
        return []
    found, kernels, evaluator = list[Judgement](), SETS[unit.of](), _evaluator(means)
    for secret, places in unit.left:
        evaluator.start_over(EvaluatorConfig(secret=secret, through=unit.through))
        for place in places:
            judgement = _verdict(evaluator, kernels[place], secret)
            if means.ends is not None and time.monotonic() > means.ends:
                return found
            if judgement.status != _NO_VERDICT:
                found.append(judgement)
            _tell(judgement, means.results)
    return found


@cache
def _evaluator(means: Means) -> Evaluator:
    """Return this process's evaluator, which stays warm until the time is over."""
    evaluator = Evaluator()
    evaluator.keep_builds(means.builds)
    if means.ends is not None:
        alarm = Timer(max(means.ends - time.monotonic(), 0), evaluator.close)
        alarm.daemon = True
        alarm.start()
    return evaluator


def _verdict(evaluator: Evaluator, kernel: HonestKernel, secret: str) -> Judgement:
    started = time.monotonic()
    try:
        evaluation = evaluator.evaluate(kernel.task, kernel.program)
        status, summary = evaluation.status.value, evaluation.summary
        accepted = evaluation.is_correct
    except KernelwrightError as e:
        status, summary, accepted = _NO_VERDICT, str(e), False
        if isinstance(e, DeviceError):
            evaluator.renew()
    return Judgement(
        kernel=kernel.name,
        program=kernel.program.id,
        task=kernel.task.fingerprint,
        secret=secret,
        status=status,
        accepted=accepted,
        summary=summary,
        seconds=round(time.monotonic() - started, 2),
        evaluator_version=EVALUATOR_VERSION,
    )


def _tell(judgement: Judgement, results: Path | None) -> None:
    if results:
        append_line(results, json.dumps(asdict(judgement)))
    if not judgement.accepted:
        print(f"{judgement.kernel} under {judgement.secret}: {judgement.summary}", flush=True)


if __name__ == "__main__":
    main()
