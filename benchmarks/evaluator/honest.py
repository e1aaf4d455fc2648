"""Judges every hand-written honest kernel under several secrets: none may be refused.

python -m benchmarks.evaluator honest [--secrets N] [--jobs N] [--shard I/N] [--json FILE]

Every secret draws other inputs and shapes. A line of JSON for each verdict goes to the file as it
comes. Shards of one run take the same --seed; together they judge each kernel under each secret.
"""

import argparse
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from kernelwright.errors import InputError, KernelwrightError
from kernelwright.evaluator.attacks.honest import HonestKernel, written_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator

_LARGEST_UNIT = 12
"""Kernels of one task that are judged in a row, on the same cases."""


@dataclass(frozen=True)
class Unit:
    """Kernels of one task, by their places, to be judged under one secret."""

    secret: str
    kernels: tuple[int, ...]


@dataclass(frozen=True)
class Judgement:
    """What came of one kernel under one secret."""

    kernel: str
    program: str
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
    share, shares = _shard(chosen.shard)
    names = [f"{chosen.seed}-{n}" for n in range(chosen.secrets)]
    units = _units(names, chosen.only)[share - 1 :: shares]
    ends = time.monotonic() + chosen.minutes * 60 if chosen.minutes else None
    count = sum(len(u.kernels) for u in units)
    print(f"seed {chosen.seed}, shard {share}/{shares}: {count} to judge", flush=True)
    found = list(_written(_judged(units, chosen.jobs, ends), chosen.json))
    refused = [j for j in found if not j.accepted]
    left = count - len(found)
    print(f"{len(found)} judged, {len(found) - len(refused)} accepted, {len(refused)} refused")
    if left:
        print(f"{left} were not judged: the time was over")
    if refused or left:
        raise SystemExit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="honest", description=__doc__)
    parser.add_argument("--secrets", type=int, default=1, help="how many to judge everything under")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="what the secrets begin with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="1/1", help="which part of the work, such as 2/6")
    parser.add_argument("--minutes", type=float, help="begin nothing new after this long")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--json", type=Path, help="a file for a line of JSON per verdict")
    return parser


def _shard(text: str) -> tuple[int, int]:
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second)):
        raise InputError(f"expected a shard such as 2/6, found {text!r}.")
    return int(first), int(second)


def _units(names: Sequence[str], only: str) -> list[Unit]:
    kernels = written_kernels()
    places = [i for i, kernel in enumerate(kernels) if only in kernel.name]
    # Kernels of one task stand together: its cases are drawn once for all of them.
    places.sort(key=lambda i: (kernels[i].task.fingerprint, i))
    batches = [
        tuple(batch)
        for _, group in groupby(places, lambda i: kernels[i].task.fingerprint)
        for batch in _chunks(list(group))
    ]
    return [Unit(name, batch) for name in names for batch in batches]


def _chunks(places: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(places), _LARGEST_UNIT):
        yield places[start : start + _LARGEST_UNIT]


def _judged(units: Sequence[Unit], jobs: int, ends: float | None) -> Iterator[Judgement]:
    if jobs == 1:
        for unit in units:
            yield from _judge(unit, ends)
        return
    # A fresh interpreter for each: a forked one would share threads that are gone.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_judge, unit, ends) for unit in units]
        for done in as_completed(waiting):
            yield from done.result()


def _judge(unit: Unit, ends: float | None) -> list[Judgement]:
    found = list[Judgement]()
    # time.monotonic() is the same clock in all processes of a machine.
    if ends is not None and time.monotonic() > ends:
        return found
    with Evaluator(config=EvaluatorConfig(secret=unit.secret)) as evaluator:
        for place in unit.kernels:
            found.append(_verdict(evaluator, written_kernels()[place], unit.secret))
    return found


def _verdict(evaluator: Evaluator, kernel: HonestKernel, secret: str) -> Judgement:
    started = time.monotonic()
    try:
        evaluation = evaluator.evaluate(kernel.task, kernel.program)
        status, summary = evaluation.status.value, evaluation.summary
        accepted = evaluation.is_correct
    except KernelwrightError as e:
        status, summary, accepted = "no verdict", str(e), False
    return Judgement(
        kernel=kernel.name,
        program=kernel.program.id,
        secret=secret,
        status=status,
        accepted=accepted,
        summary=summary,
        seconds=round(time.monotonic() - started, 2),
    )


def _written(judgements: Iterator[Judgement], path: Path | None) -> Iterator[Judgement]:
    lines = path.open("a") if path else None
    try:
        for judgement in judgements:
            if lines:
                lines.write(json.dumps(asdict(judgement)) + "\n")
                lines.flush()
            if not judgement.accepted:
                print(
                    f"{judgement.kernel} under {judgement.secret}: {judgement.summary}", flush=True
                )
            yield judgement
    finally:
        if lines:
            lines.close()


if __name__ == "__main__":
    main()
