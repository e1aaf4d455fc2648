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

from benchmarks.models.measure import Measuring, Result
from benchmarks.models.rows import ROWS
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.device.registry import default_device, open_device

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
    found: list[Result] = []
    for name in names or list(known):
        others = list(found)

        def keep(result: Result, others: list[Result] = others) -> None:
            _write(options.output, device, [*others, result])

        begun_s = time.perf_counter()
        measuring = Measuring(known[name], device, options, keep)
        measuring.run()
        measuring.result["took_s"] = round(time.perf_counter() - begun_s, 1)
        found.append(measuring.result)
        keep(measuring.result)
        print(_line(found[-1]), flush=True)
        del measuring
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
    parser.add_argument("--probe", type=int, default=0, help="schedules tried unjudged, a task")
    parser.add_argument("--probe-seconds", type=float, default=60.0, help="of probing, a row")
    parser.add_argument("--row-seconds", type=float, default=math.inf, help="for all of a row")
    parser.add_argument("--timing-seconds", type=float, default=20.0, help="kept for the end of it")
    parser.add_argument("--most-elements", type=float, default=math.inf, help="of a task's inputs")
    parser.add_argument("--decode-only", action="store_true", help="leave prefill to MLX")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    return parser.parse_args()


def _line(result: Result) -> str:
    words = [f"{result['row']:18}"]
    for key, name in (("probed_speed", "probed"), ("speed", "tuned")):
        speed = result.get(key)
        if isinstance(speed, dict):
            words.append(f"{name}: {_ratios(speed)}")
    same = result.get("sameness")
    if isinstance(same, dict):
        words.append(f"tokens {same['identical']}/{same['prompts']}")
    if "error" in result:
        words.append(f"FAILS {str(result['error'])[:160]}")
    return "  ".join([*words, f"{result['took_s']} s {result['seconds']}"])


def _ratios(speed: dict[str, dict[str, dict[str, float]]]) -> str:
    arms: dict[str, dict[str, dict[str, float]]] = speed["arms"]  # type: ignore[assignment]
    before, after = (arms[arm]["decode_ms"]["median"] for arm in ("untouched", "tuned"))
    host, later = (
        arms[arm]["build_ms"]["median"] + arms[arm]["launch_ms"]["median"]
        for arm in ("untouched", "tuned")
    )
    ratios = [
        f"{name} {speed[key]['median']:.2f}x"
        for name, key in (
            ("decode", "decode_speedup"),
            ("control", "decode_control"),
            ("prefill", "prefill_speedup"),
        )
    ]
    return f"{before:.2f} -> {after:.2f} ms, host {host:.2f} -> {later:.2f}, {', '.join(ratios)}"


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
