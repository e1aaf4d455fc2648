"""Judges honest kernels under several secrets, through all stages: none may be refused.

python -m benchmarks.evaluator honest [--of SET] [--secrets N] [--jobs N] [--shard I/N] [--json F]

The sets: `written` by hand in unusual styles, `lowered` in many schedules at small shapes and what
stands behind the corpus, what the templates make of the shipped `examples` and of the `catalog`.
Every secret draws other inputs and shapes. A line of JSON for each verdict goes to the file as it
comes, and what stands there is not judged again: a run that was stopped goes on where it was.
Shards of one run take the same --seed; together they judge each kernel under each secret.
"""

import argparse
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

from benchmarks.evaluator.process_pool import append_line, processes, shard_of, whole_lines
from benchmarks.evaluator.template_kernels import catalog_kernels, example_kernels
from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.attacks.honest import HonestKernel, all_honest, written_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage

_LARGEST_UNIT = 12
"""Kernels of one task that are judged in a row, on the same cases."""
_NO_VERDICT = "no verdict"
SETS: dict[str, Callable[[], tuple[HonestKernel, ...]]] = {
    "written": written_kernels,
    "lowered": all_honest,
    "examples": example_kernels,
    "catalog": catalog_kernels,
}


@dataclass(frozen=True)
class Unit:
    """Kernels of one task, by their places in a set, to be judged under one secret."""

    of: str
    secret: str
    through: Stage
    places: tuple[int, ...]

    @property
    def kernels(self) -> tuple[HonestKernel, ...]:
        """The kernels themselves."""
        return tuple(SETS[self.of]()[place] for place in self.places)


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the refusals and how many were accepted.

    Raises:
        SystemExit: a kernel was refused, or the time was over before all had been judged.
    """
    chosen = _parser().parse_args(arguments)
    share, shares = shard_of(chosen.shard)
    names = [f"{chosen.seed}-{n}" for n in range(chosen.secrets)]
    units = _units(names, chosen)[share - 1 :: shares]
    before = read(chosen.json)
    known = {(j.program, j.task, j.secret) for j in before}
    units = [left for unit in units if (left := _without(unit, known)).places]
    ends = time.monotonic() + chosen.minutes * 60 if chosen.minutes else None
    count = sum(len(u.places) for u in units)
    print(f"seed {chosen.seed}, shard {share}/{shares}: {count} to judge", flush=True)
    found = list(_written(_judged(units, chosen.jobs, ends), chosen.json))
    _conclude([*before, *found], left=count - len(found))


def _conclude(found: Sequence[Judgement], left: int) -> None:
    refused = sum(not j.accepted for j in found)
    print(f"{len(found)} judged, {len(found) - refused} accepted, {refused} refused")
    if left:
        print(f"{left} were not judged: the time was over")
    if refused or left:
        raise SystemExit(1)


def read(path: Path | None) -> list[Judgement]:
    """Return what a results file holds; what got no verdict is left out, to be judged again."""
    found = (Judgement(**json.loads(line)) for line in whole_lines(path))
    return [judgement for judgement in found if judgement.status != _NO_VERDICT]


def _without(unit: Unit, known: set[tuple[str, str, str]]) -> Unit:
    """Leave out what has been judged."""
    left = tuple(
        place
        for place, kernel in zip(unit.places, unit.kernels, strict=True)
        if (kernel.program.id, kernel.task.fingerprint, unit.secret) not in known
    )
    return replace(unit, places=left)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="honest", description=__doc__)
    parser.add_argument("--of", choices=SETS, default="written", help="which kernels")
    parser.add_argument(
        "--through", type=Stage, default=Stage.CONFIRMATION, help="the last stage that judges"
    )
    parser.add_argument("--every", type=int, default=1, help="of the tasks, every so many")
    parser.add_argument("--secrets", type=int, default=1, help="how many to judge everything under")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="what the secrets begin with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="1/1", help="which part of the work, such as 2/6")
    parser.add_argument("--minutes", type=float, help="begin nothing new after this long")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--json", type=Path, help="a file for a line of JSON per verdict")
    return parser


def _units(names: Sequence[str], chosen: argparse.Namespace) -> list[Unit]:
    kernels = SETS[chosen.of]()
    places = [i for i, kernel in enumerate(kernels) if chosen.only in kernel.name]
    # Kernels of one task stand together: its cases are drawn once for all of them.
    places.sort(key=lambda i: (kernels[i].task.fingerprint, i))
    batches = [
        tuple(batch)
        for _, group in groupby(places, lambda i: kernels[i].task.fingerprint)
        for batch in _chunks(list(group))
    ]
    return [
        Unit(chosen.of, name, chosen.through, batch)
        for name in names
        for batch in batches[:: chosen.every]
    ]


def _chunks(places: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(places), _LARGEST_UNIT):
        yield places[start : start + _LARGEST_UNIT]


def _judged(units: Sequence[Unit], jobs: int, ends: float | None) -> Iterator[Judgement]:
    if jobs == 1:
        for unit in units:
            yield from _judge(unit, ends)
        return
    with processes(jobs) as pool:
        waiting = [pool.submit(_judge, unit, ends) for unit in units]
        for done in as_completed(waiting):
            yield from done.result()


@cache
def _evaluator() -> Evaluator:
    """Return this process's evaluator: its worker stays warm from secret to secret."""
    return Evaluator()


def _judge(unit: Unit, ends: float | None) -> list[Judgement]:
    found = list[Judgement]()
    evaluator = _evaluator()
    evaluator.start_over(EvaluatorConfig(secret=unit.secret, through=unit.through))
    for kernel in unit.kernels:
        # time.monotonic() is the same clock in all processes of a machine.
        if ends is not None and time.monotonic() > ends:
            break
        found.append(_verdict(evaluator, kernel, unit.secret))
    return found


def _verdict(evaluator: Evaluator, kernel: HonestKernel, secret: str) -> Judgement:
    started = time.monotonic()
    try:
        evaluation = evaluator.evaluate(kernel.task, kernel.program)
        status, summary = evaluation.status.value, evaluation.summary
        accepted = evaluation.is_correct
    except KernelwrightError as e:
        status, summary, accepted = _NO_VERDICT, str(e), False
        if isinstance(e, DeviceError):
            evaluator.close()
    return Judgement(
        kernel=kernel.name,
        program=kernel.program.id,
        task=kernel.task.fingerprint,
        secret=secret,
        status=status,
        accepted=accepted,
        summary=summary,
        seconds=round(time.monotonic() - started, 2),
    )


def _written(judgements: Iterator[Judgement], path: Path | None) -> Iterator[Judgement]:
    for judgement in judgements:
        if path:
            append_line(path, json.dumps(asdict(judgement)))
        if not judgement.accepted:
            print(f"{judgement.kernel} under {judgement.secret}: {judgement.summary}", flush=True)
        yield judgement


if __name__ == "__main__":
    main()
