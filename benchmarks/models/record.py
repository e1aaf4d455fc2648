"""Records what the rows' models compute when they generate, each in a process of its own.

python -m benchmarks.models.record traces --rows llama-1b,mamba2-1.3b
python -m benchmarks.models.search traces/*.json --store models.db
"""

import argparse
import multiprocessing
import sys
from pathlib import Path

from benchmarks.models.rows import ROWS, Row, small
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.workload import record_generation

_LAYERS = 4
"""Built of each model: the layers of these architectures are alike."""


def _record(row: Row, options: argparse.Namespace) -> None:
    config = small(row.config) if options.small else row.config
    layers = min(int(str(config["num_hidden_layers"])), _LAYERS)
    model = build_model({**config, "num_hidden_layers": layers})
    workload = record_generation(
        row.name, model, prompt=options.prompt, with_prefill=options.prefill
    )
    workload.save(options.folder / f"{row.name}.json")


def main() -> int:
    """Record the rows that were asked for; say which could not be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where a trace of each row is written")
    parser.add_argument("--rows", default="", help="names, separated by commas; all by default")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--prefill", action="store_true", help="record the prompt as well")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    options = parser.parse_args()
    names = [name for name in options.rows.split(",") if name]
    rows = [row for row in ROWS if not names or row.name in names]
    options.folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_record, args=(row, options)) for row in rows]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = [row.name for row, p in zip(rows, processes, strict=True) if p.exitcode]
    if failed:
        print(f"not recorded: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
