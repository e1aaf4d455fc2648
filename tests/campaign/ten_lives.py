"""A campaign of three functions and a scripted model that is killed ten times, and a calm one."""

import sys
from pathlib import Path

from benchmarks.reliability.place import Files
from benchmarks.reliability.sweep import opened

if __name__ == "__main__":
    with opened(Path(sys.argv[1]), Files(), keeps=True) as sweep:
        calm, took_s = sweep.calm(judge="invent")
        tally = sweep.killed(
            calm, 1, 10, took_s, how={"judge": "invent"}, kinds=("write", "commit")
        )
    print(tally.kills.total(), tally.problems)
