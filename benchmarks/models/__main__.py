"""Measures tokens per second of models as mlx-lm has them, against the same models tuned.

    python -m benchmarks.models                          # all rows, on this machine's GPU
    python -m benchmarks.models --rows llama-1b,qwen3-8b-4bit --candidates 4 --seconds 180
    python -m benchmarks.models --candidates 0           # install from the store, search nothing
    python -m benchmarks.models --small --rows llama-1b  # try the script without a GPU

Weights are random, of published configurations: no network. A row is recorded, its parts are
searched by the offline agents, what was found is installed, and the model is timed against itself
without kernels, interleaved with a control arm. The result is written after every row.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from pathlib import Path

import mlx.core as mx

from benchmarks.models.rows import ROWS, Row, small
from kernelwright.campaign import Engine, SearchSpec, judges_on, offline_team
from kernelwright.campaign.given_graph import captured_graphs
from kernelwright.campaign.interleave import BySavings
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.registry import default_device, open_device
from kernelwright.runtime.models.choosing import choose
from kernelwright.runtime.models.install import optimize_model, restore_model
from kernelwright.runtime.models.proof import compare_tokens
from kernelwright.runtime.models.speed import measure_speed
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.workload import record_generation
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore

_RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Measure the rows that were asked for, and write them."""
    options = _options()
    names = [name for name in options.rows.split(",") if name]
    known = {row.name: row for row in ROWS}
    if unknown := [name for name in names if name not in known]:
        print(f"expected rows among {', '.join(known)}; found {', '.join(unknown)}.")
        return 1
    device: DeviceName = options.device or default_device()
    found: list[dict[str, object]] = []
    for name in names or list(known):
        try:
            found.append(_measured(known[name], device, options))
        except Exception as e:
            # One row that fails must not take the others along.
            found.append({"row": name, "error": f"{type(e).__name__}: {e}"})
        print(_line(found[-1]), flush=True)
        _write(options.output, device, found)
        mx.clear_cache()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="", help="names, separated by commas; all by default")
    parser.add_argument("--device", default=None)
    parser.add_argument("--store", default="models.db")
    parser.add_argument("--output", type=Path, default=_RESULTS / "models.json")
    parser.add_argument("--candidates", type=int, default=4, help="a task; 0 searches nothing")
    parser.add_argument("--seconds", type=float, default=240.0, help="of search, a row")
    parser.add_argument("--tasks", type=int, default=24, help="a row, most worth first")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64, help="timed after each prompt")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompts", type=int, default=4, help="whose greedy tokens are compared")
    parser.add_argument("--compared", type=int, default=128, help="tokens of each of them")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    return parser.parse_args()


def _measured(row: Row, device: DeviceName, options: argparse.Namespace) -> dict[str, object]:
    begun = time.perf_counter()
    model = build_model(small(row.config) if options.small else row.config)
    result: dict[str, object] = {"row": row.name}
    workload = record_generation(row.name, model, prompt=options.prompt, tokens=256)
    opened = open_device(device)
    choices = choose(workload, opened)
    result["tasks"] = [
        {
            "task": choice.name,
            "inputs": [str(t) for t in choice.graph.input_types],
            "calls": choice.calls,
            "mlx_us": round(choice.taken_us, 2),
            "floor_us": round(choice.floor_us, 2),
            "refused": choice.refused,
            "where": choice.where[:4],
        }
        for choice in choices
    ]
    wanted = [choice for choice in choices if not choice.refused][: options.tasks]
    result["recorded_s"] = round(time.perf_counter() - begun, 1)
    if options.candidates and wanted:
        named = {f"{i}:{c.name}"[:80]: c for i, c in enumerate(wanted)}
        most = wanted[0].gain_us or 1.0
        spec = SearchSpec(
            name=f"models {row.name}",
            device=device,
            candidates_per_task=options.candidates,
            seconds=options.seconds,
            jobs=options.jobs,
        )
        with KernelStore(options.store) as store:
            engine = Engine(
                store,
                spec,
                offline_team(),
                judges_on(device, store),
                order=BySavings({n: 1 + 9 * c.gain_us / most for n, c in named.items()}),
            )
            report = engine.run(captured_graphs({n: c.graph for n, c in named.items()}, row.name))
        result["search"] = [
            {
                "task": task.name,
                "tried": task.tried,
                "champion": task.champion_id,
                "rank": task.rank.model_dump() if task.rank else None,
                "failures": {str(k): v for k, v in task.failures.items()},
                "reason": task.reason,
            }
            for task in report.tasks
        ]
        result["searched_s"] = round(report.duration_s, 1)
    optimize_model(model, KernelServer(options.store, device))
    if opened.info.measures_time:
        speed = measure_speed(
            model, prompt=options.prompt, tokens=options.tokens, rounds=options.rounds
        )
        result["speed"] = speed.model_dump()
    if options.prompts:
        same = compare_tokens(model, prompts=options.prompts, tokens=options.compared)
        result["sameness"] = same.model_dump()
    restore_model(model)
    result["took_s"] = round(time.perf_counter() - begun, 1)
    return result


def _line(result: dict[str, object]) -> str:
    if "error" in result:
        return f"{result['row']:18} FAILS {str(result['error'])[:200]}"
    speed, same = result.get("speed"), result.get("sameness")
    words = [f"{result['row']:18}"]
    if isinstance(speed, dict):
        arms = speed["arms"]
        before, after = (arms[arm]["decode_ms"]["median"] for arm in ("untouched", "tuned"))
        words.append(f"decode {before:.2f} -> {after:.2f} ms")
        words += [
            f"{name} {speed[key]['median']:.2f}x"
            for name, key in (
                ("decode", "decode_speedup"),
                ("control", "decode_control"),
                ("prefill", "prefill_speedup"),
            )
        ]
    if isinstance(same, dict):
        words.append(f"tokens {same['identical']}/{same['prompts']}")
    return "  ".join([*words, f"{result['took_s']} s"])


def _write(path: Path, device: DeviceName, rows: list[dict[str, object]]) -> None:
    ratios = {
        key: [row["speed"][key]["median"] for row in rows if isinstance(row.get("speed"), dict)]  # type: ignore[index]
        for key in ("decode_speedup", "prefill_speedup")
    }
    whole = {
        "command": " ".join(["python -m benchmarks.models", *sys.argv[1:]]),
        "device": open_device(device).info.model_dump(),
        "commit": _commit(),
        "mlx": mx.__version__,
        "python": platform.python_version(),
        "geometric_means": {key: _mean(found) for key, found in ratios.items() if found},
        "rows": rows,
    }
    path.write_text(json.dumps(whole, indent=1, default=str) + "\n")


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
