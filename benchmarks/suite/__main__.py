"""`python -m benchmarks.suite`: run, confirm, copy, report, compare, merge, predict, ceilings."""

import argparse
import sys
from pathlib import Path

import mlx.core as mx

from benchmarks.suite.ceiling_times import measure_ceilings
from benchmarks.suite.comparison import compare
from benchmarks.suite.counting import count
from benchmarks.suite.measure import confirm_suite, copy_suite, run_suite
from benchmarks.suite.packing import pack
from benchmarks.suite.prediction import judge, markdown
from benchmarks.suite.report import write_report
from benchmarks.suite.result import SuiteRun
from benchmarks.suite.search import SCHEDULES
from benchmarks.suite.sets import SETS
from benchmarks.suite.timing import Timing
from benchmarks.suite.workloads import WORKLOADS
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.registry import open_device


def main() -> int:
    """Run one command; returns the process's exit status."""
    arguments = _parser().parse_args()
    try:
        return int(arguments.command(arguments))
    except KernelwrightError as e:
        print(e, file=sys.stderr)
        return 1


def _timing_device(name: str) -> Device:
    device = open_device(name)
    if not device.info.measures_time:
        raise InputError(f"the {device.info.name} device measures no time; use metal or cuda.")
    mx.set_default_device(mx.gpu)
    return device


def _run(arguments: argparse.Namespace) -> int:
    device = _timing_device(arguments.device)
    dtypes = [Dtype.parse(text) for text in arguments.dtype.split(",")]
    chosen = [
        (w, d)
        for w in SETS[arguments.set]
        for d in dtypes
        if d in w.dtypes and (not arguments.only or w.name in arguments.only.split(","))
    ]
    if not chosen:
        raise InputError(f"no workload is called {arguments.only!r}.")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for run in run_suite(chosen, device, seed=arguments.seed, most_schedules=arguments.schedules):
        arguments.out.write_text(run.model_dump_json(indent=1))
    return _report(argparse.Namespace(run=arguments.out))


def _confirm(arguments: argparse.Namespace) -> int:
    device = _timing_device(arguments.device)
    for run in confirm_suite(SuiteRun.load(arguments.run), device):
        arguments.run.write_text(run.model_dump_json(indent=1))
    return _report(arguments)


def _copy(arguments: argparse.Namespace) -> int:
    device = _timing_device(arguments.device)
    for run in copy_suite(SuiteRun.load(arguments.run), device):
        arguments.run.write_text(run.model_dump_json(indent=1))
    return _report(arguments)


def _report(arguments: argparse.Namespace) -> int:
    print(f"wrote {write_report(SuiteRun.load(arguments.run), arguments.run)}")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    text, regressions = compare(SuiteRun.load(arguments.before), SuiteRun.load(arguments.after))
    print(text)
    return 1 if regressions else 0


def _merge(arguments: argparse.Namespace) -> int:
    names = arguments.only.split(",") if arguments.only else ()
    merged = SuiteRun.load(arguments.run).with_rows_of(SuiteRun.load(arguments.later), names)
    arguments.run.write_text(merged.model_dump_json(indent=1))
    return _report(arguments)


def _predict(arguments: argparse.Namespace) -> int:
    timing = Timing.load(arguments.timings)
    counted = count([kernel.key for kernel in timing.kernels], arguments.counters)
    arguments.out.write_text(markdown(timing, judge(timing, counted)))
    print(f"wrote {arguments.out}")
    return 0


def _pack(arguments: argparse.Namespace) -> int:
    dtype, names = Dtype.parse(arguments.dtype), arguments.only.split(",")
    chosen = [w for w in WORKLOADS if dtype in w.dtypes and (not arguments.only or w.name in names)]
    number = pack(chosen, dtype, open_device("simulator").info, arguments.out, arguments.drawn)
    print(f"packed {number} candidates")
    return 0


def _gather(arguments: argparse.Namespace) -> int:
    arguments.out.write_text(
        Timing.gather(arguments.timed, arguments.profile).model_dump_json(indent=1) + "\n"
    )
    print(f"wrote {arguments.out}")
    return 0


def _ceilings(arguments: argparse.Namespace) -> int:
    measured = measure_ceilings(_timing_device(arguments.device))
    arguments.out.write_text(measured.model_dump_json(indent=1) + "\n")
    print(f"wrote {arguments.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="search and time every workload")
    run.add_argument("--device", default="metal", help="metal or cuda")
    run.add_argument("--dtype", default="f16,bf16,f32", help="dtypes, comma-separated")
    run.add_argument("--only", default="", help="workload names, comma-separated")
    run.add_argument("--set", choices=SETS, default="suite", help="which workloads")
    run.add_argument("--schedules", type=int, default=SCHEDULES, help="candidates for each region")
    run.add_argument("--seed", type=int, default=0, help="seeds inputs and orders")
    run.add_argument("--out", type=Path, default=Path("benchmarks/results/suite.json"))
    run.set_defaults(command=_run)
    report = commands.add_parser("report", help="write the table and plots of a run")
    report.add_argument("run", type=Path)
    report.set_defaults(command=_report)
    confirmation = commands.add_parser("confirm", help="time a run's gains in a fresh process")
    confirmation.add_argument("run", type=Path)
    confirmation.add_argument("--device", default="metal", help="metal or cuda")
    confirmation.set_defaults(command=_confirm)
    copying = commands.add_parser("copy", help="time a copy beside every row that has none")
    copying.add_argument("run", type=Path)
    copying.add_argument("--device", default="metal", help="metal or cuda")
    copying.set_defaults(command=_copy)
    comparison = commands.add_parser("compare", help="set two runs side by side")
    comparison.add_argument("before", type=Path)
    comparison.add_argument("after", type=Path)
    comparison.set_defaults(command=_compare)
    merging = commands.add_parser("merge", help="take rows of a later run into an earlier one")
    merging.add_argument("run", type=Path)
    merging.add_argument("later", type=Path)
    merging.add_argument("--only", default="", help="workload names, comma-separated")
    merging.set_defaults(command=_merge)
    prediction = commands.add_parser("predict", help="count timed candidates, and judge the model")
    prediction.add_argument("timings", type=Path, help="by the GPU's clock: what gather wrote")
    prediction.add_argument("--counters", type=Path, required=True, help="keeps what was counted")
    prediction.add_argument("--out", type=Path, default=Path("prediction.md"))
    prediction.set_defaults(command=_predict)
    packing = commands.add_parser("pack", help="write candidates for stopwatch.py")
    packing.add_argument("--dtype", default="f16", help="of the inputs")
    packing.add_argument("--only", default="", help="workload names, comma-separated")
    packing.add_argument(
        "--drawn", type=int, default=12, help="of each region, at random from all legal schedules"
    )
    packing.add_argument("--out", type=Path, default=Path("pack.json.gz"))
    packing.set_defaults(command=_pack)
    gathering = commands.add_parser("gather", help="join what stopwatch.py measured")
    gathering.add_argument("timed", type=Path, nargs="+")
    gathering.add_argument(
        "--profile", type=Path, action="append", default=[], help="Nsight Compute's CSV"
    )
    gathering.add_argument("--out", type=Path, default=Path("kernels.json"))
    gathering.set_defaults(command=_gather)
    ceilings = commands.add_parser("ceilings", help="time plain programs, which floors are of")
    ceilings.add_argument("--device", default="metal", help="metal or cuda")
    ceilings.add_argument("--out", type=Path, default=Path("ceilings.json"))
    ceilings.set_defaults(command=_ceilings)
    return parser


if __name__ == "__main__":
    sys.exit(main())
