"""Kills campaigns a thousand times, lets everything fail around others, and inspects their stores.

Run `python -m benchmarks.reliability --write`: it writes its figures to docs/reliability.md.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reliability.inspection import Finding
from benchmarks.reliability.page import Figures, write
from benchmarks.reliability.sweep import TIGHT, Sweep, Tally, opened

_KILLS_EACH = 25
_FAULTS_EACH = 12
_SHARE_TIGHT = 5
"""Every fifth campaign has caps that bind."""


def main() -> int:
    """Sweep, print every campaign, and write the page on request; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--real-kills", type=int, default=100, help="On the simulator itself.")
    parser.add_argument("--real-faults", type=int, default=40, help="On the simulator itself.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="Write docs/reliability.md.")
    asked = parser.parse_args()
    begun = time.monotonic()
    figures = Figures(machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="reliability-") as scratch:
        for sweep in opened(Path(scratch)):
            calm, real_s = sweep.calm(judge="record")
            again, took_s = sweep.calm(judge="read")
            if calm.champions != again.champions:
                raise RuntimeError("two calm campaigns end with different champions")
            for tally in _kills(sweep, calm, asked.seed, asked.kills, took_s):
                figures.killed.add(_told(tally))
            for tally in _faults(sweep, calm, asked.seed, asked.faults):
                figures.faulty.add(_told(tally))
            while figures.real.kills.total() < asked.real_kills:
                seed = 10_000 + asked.seed + figures.real.campaigns
                figures.real.add(_told(sweep.killed(calm, seed, 10, real_s, judge="real")))
            while figures.real.faults.total() < asked.real_faults:
                seed = 20_000 + asked.seed + figures.real.campaigns
                figures.real.add(_told(sweep.faulty(calm, seed, 8, judge="real")))
    figures.minutes = (time.monotonic() - begun) / 60
    print(figures.table)
    if asked.write:
        write(figures)
    return 1 if figures.problems else 0


def _kills(sweep: Sweep, calm: Finding, seed: int, kills: int, took_s: float) -> Iterator[Tally]:
    done, number = 0, 0
    while done < kills:
        number += 1
        most = min(_KILLS_EACH, kills - done)
        how = {} if number % _SHARE_TIGHT else {"caps": TIGHT, "evaluations": 15}
        tally = sweep.killed(calm, seed + number, most, took_s, **how)
        done += tally.kills.total()
        yield tally


def _faults(sweep: Sweep, calm: Finding, seed: int, faults: int) -> Iterator[Tally]:
    done, number = 0, 0
    while done < faults:
        number += 1
        tally = sweep.faulty(calm, 1000 + seed + number, _FAULTS_EACH)
        done += tally.faults.total()
        yield tally


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
