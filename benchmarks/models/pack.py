"""Packs schedules of recorded models' tasks, for `benchmarks/suite/stopwatch.py`.

python -m benchmarks.models.record traces
python -m benchmarks.models.pack traces/*.json --chip h200 --only matmul,qmm --out pack.json.gz
python benchmarks/suite/stopwatch.py pack.json.gz timed.json
"""

import argparse
import sys
from pathlib import Path
from random import Random

from benchmarks.models.search import distinct_choices
from benchmarks.suite.packing import Packed, packed_schedules, write_pack
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.lower import schedules


def main() -> int:
    """Write each task's first schedules, and as many drawn from the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--chip", default="h200", help="whose schedules")
    parser.add_argument("--only", default="", help="parts of tasks' names, separated by commas")
    parser.add_argument("--first", type=int, default=5, help="schedules of a task")
    parser.add_argument("--drawn", type=int, default=13, help="more of them, at random")
    parser.add_argument("--most-elements", type=float, default=1e9, help="of a task's inputs")
    parser.add_argument("--out", type=Path, default=Path("pack.json.gz"))
    options = parser.parse_args()
    info = open_device("simulator", stands_for=options.chip).info
    found: list[Packed] = []
    for choice in distinct_choices(options.traces, int(options.most_elements)):
        if not any(word in choice.name for word in options.only.split(",")):
            continue
        legal = schedules(choice.graph, info)
        first, rest = legal[: options.first], legal[options.first :]
        drawn = Random(choice.graph.fingerprint).sample(rest, min(options.drawn, len(rest)))
        inputs = ", ".join(map(str, choice.graph.input_types))
        key: Packed = {"workload": f"{choice.name} {inputs}", "dtype": "", "region": 0}
        found += packed_schedules(choice.graph, [*first, *drawn], key)
    write_pack(found, options.out)
    print(f"{len(found)} candidates in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
