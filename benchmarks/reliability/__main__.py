"""Kills campaigns a thousand times, lets everything fail around others, and inspects their stores.

Run `python -m benchmarks.reliability --write`: it writes its figures to docs/reliability.md.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import get_args

from benchmarks.reliability.inspection import Finding
from benchmarks.reliability.page import Figures, write
from benchmarks.reliability.place import Kind, Place, opened_place
from benchmarks.reliability.sweep import TIGHT, TIMED, Sweep, Tally, opened

_KILLS_EACH = 25
_FAULTS_EACH = 12
_SHARE_TIGHT = 5
"""Every fifth campaign has caps on money and evaluations that bind, another one on time."""
_REAL: dict[str, object] = {"judge": "real"}


def main() -> int:
    """Sweep, print every campaign, and write the page on request; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--real-kills", type=int, default=100, help="On the simulator itself.")
    parser.add_argument("--real-faults", type=int, default=40, help="On the simulator itself.")
    parser.add_argument("--place", choices=get_args(Kind), default="sqlite", help="Of the stores.")
    parser.add_argument("--jobs", type=int, default=2, help="Processes that share the work.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Leave every store in this folder.")
    parser.add_argument("--invent", action="store_true", help="Ask no simulator, for a quick look.")
    parser.add_argument("--write", action="store_true", help="Write docs/reliability.md.")
    asked = parser.parse_args()
    begun = time.monotonic()
    figures = Figures(
        place=asked.place,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    )
    with (
        tempfile.TemporaryDirectory(prefix="reliability-") as scratch,
        opened_place(asked.place) as place,
    ):
        folder = asked.keep or Path(scratch)
        calm = _calm(folder, place, asked)
        parts = [
            _begun(partial(_share, folder, place, calm, asked, job)) for job in range(asked.jobs)
        ]
        for process, pipe in parts:
            figures.add(_received(pipe))
            os.waitpid(process, 0)
    figures.minutes = (time.monotonic() - begun) / 60
    print(figures.table)
    if asked.write:
        write(figures)
    return 1 if figures.problems else 0


@dataclass(frozen=True)
class Calm:
    """Campaigns that nothing disturbs, and how long they take."""

    finding: Finding
    real_s: float
    read_s: float


def _calm(folder: Path, place: Place, asked: argparse.Namespace) -> Calm:
    """Record what the simulator says, and see that campaigns end alike."""
    judge = "invent" if asked.invent else "record"
    with opened(folder, place, fleet=asked.place == "fleet") as sweep:
        finding, real_s = sweep.calm(judge=judge)
        again, read_s = sweep.calm(judge=_then(judge))
        if finding.champions != again.champions:
            raise RuntimeError("two calm campaigns end with different champions")
    return Calm(finding, real_s, read_s)


def _share(folder: Path, place: Place, calm: Calm, asked: argparse.Namespace, job: int) -> Figures:
    """Do one process's share of everything."""
    figures = Figures(machine="", place=asked.place)
    seed = asked.seed + 100_000 * job
    kills, faults, real_kills, real_faults = (
        -(-number // asked.jobs)
        for number in (asked.kills, asked.faults, asked.real_kills, asked.real_faults)
    )
    judge = _then("invent" if asked.invent else "record")
    keeps, fleet = asked.keep is not None, asked.place == "fleet"
    with opened(folder, place, keeps=keeps, fleet=fleet) as sweep:
        for tally in _kills(sweep, calm, seed, kills, judge):
            figures.killed.add(_told(tally))
        for tally in _faults(sweep, calm, seed, faults, judge):
            figures.faulty.add(_told(tally))
        while figures.real.kills.total() < real_kills:
            number = 10_000 + seed + figures.real.campaigns
            how = sweep.killed(calm.finding, number, 10, calm.real_s, how=_REAL)
            figures.real.add(_told(how))
        while figures.real.faults.total() < real_faults:
            number = 20_000 + seed + figures.real.campaigns
            figures.real.add(_told(sweep.faulty(calm.finding, number, 8, _REAL)))
    return figures


def _begun(work: Callable[[], Figures]) -> tuple[int, Connection]:
    """Fork a process that sends back what it found."""
    here, there = Pipe(duplex=False)
    process = os.fork()
    if process == 0:
        here.close()
        try:
            there.send(work())
        finally:
            os._exit(0)
    there.close()
    return process, here


def _received(pipe: Connection) -> Figures:
    figures = pipe.recv()
    assert isinstance(figures, Figures)
    return figures


def _kills(sweep: Sweep, calm: Calm, seed: int, kills: int, judge: str) -> Iterator[Tally]:
    done, number = 0, 0
    while done < kills:
        number += 1
        most = min(_KILLS_EACH, kills - done)
        how: dict[str, object] = {"judge": judge}
        if number % _SHARE_TIGHT == 0:
            how |= {"caps": TIGHT, "evaluations": 15}
        elif number % _SHARE_TIGHT == 1:
            how |= {"caps": TIMED, "seconds": calm.read_s / 2}
        tally = sweep.killed(calm.finding, seed + number, most, calm.read_s, how=how)
        done += tally.kills.total()
        yield tally


def _faults(sweep: Sweep, calm: Calm, seed: int, faults: int, judge: str) -> Iterator[Tally]:
    done, number = 0, 0
    while done < faults:
        number += 1
        tally = sweep.faulty(calm.finding, 1000 + seed + number, _FAULTS_EACH, {"judge": judge})
        done += tally.faults.total()
        yield tally


def _then(judge: str) -> str:
    return "read" if judge == "record" else judge


def _told(tally: Tally) -> Tally:
    """Print a campaign's figures."""
    happened = dict(tally.kills + tally.faults)
    print(f"{tally.lives} lives, {tally.evaluations} evaluations, {tally.calls} calls; {happened}")
    for problem in tally.problems:
        print(f"  PROBLEM {problem}")
    sys.stdout.flush()
    return tally


if __name__ == "__main__":
    sys.exit(main())
