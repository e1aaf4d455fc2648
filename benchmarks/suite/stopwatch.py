"""Times packed candidates by an NVIDIA GPU's own clock; needs CuPy and NumPy alone.

`python benchmarks/suite/stopwatch.py PACK OUT` compiles every text, records launches on rotating
inputs as a CUDA graph, and times its replays with events. Run by itself so that the machine with
the GPU needs neither MLX nor this package. With `--once` it launches everything once, for Nsight
Compute: `ncu -k kw_kernel --metrics smsp__inst_executed.sum --print-units base --csv --page raw
python benchmarks/suite/stopwatch.py PACK OUT --once > PROFILE`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np
from cupy.cuda import nvrtc

_INCLUDES = ("/usr/local/cuda/include", "/usr/local/cuda/include/cccl")
_REPLAYS, _FEWEST_REPLAYS = 15, 3
_LONG_US = 100_000.0
"""Replays that take longer together are fewer: what takes long varies little."""
_WARM_UPS = 2
_GRAPH_US = 600.0
"""A graph takes about so long, so that its own launch does not show."""
_MOST_EMPTY = 64
_ROTATION_BYTES, _MOST_COPIES = 256 << 20, 8
"""Inputs take turns over more bytes than the last cache holds, as in the suite's search."""
Candidate = dict[str, Any]
Work = Callable[[int], None]
Action = Callable[[], object]


def compile_text(job: tuple[str, dict[str, str]]) -> bytes:
    """Compile one launch for an H100 or H200."""
    text, headers = job
    program = nvrtc.createProgram(
        text, "kernel.cu", [h.encode() for h in headers.values()], [n.encode() for n in headers]
    )
    options = ["--gpu-architecture=sm_90", "--std=c++17"]
    nvrtc.compileProgram(program, [*options, *(f"--include-path={i}" for i in _INCLUDES)])
    return bytes(nvrtc.getCUBIN(program))


def time_candidate(
    candidate: Candidate, cubins: Sequence[bytes], stream: cp.cuda.Stream
) -> dict[str, Any]:
    """Return the candidate's key with the microseconds of every replay, for one run of it."""
    functions = [
        _load(cubin, one) for cubin, one in zip(cubins, candidate["launches"], strict=True)
    ]
    copies = _copies(candidate)

    def work(turn: int) -> None:
        arrays = copies[turn % len(copies)]
        for function, launch in zip(functions, candidate["launches"], strict=True):
            arguments = tuple(arrays[place] for place in launch["arrays"])
            function((launch["blocks"],), (launch["threads"],), arguments)

    first = float(np.median(_replay(_record(work, 8, stream), stream, _FEWEST_REPLAYS))) / 8
    turns = int(np.clip(_GRAPH_US / first, 8, 64))
    turns += -turns % len(copies)
    replays = int(np.clip(_LONG_US / (turns * first), _FEWEST_REPLAYS, _REPLAYS))
    times = [us / turns for us in _replay(_record(work, turns, stream), stream, replays)]
    registers = max(function.num_regs for function in functions)
    return {
        **_key(candidate),
        "us": times,
        "registers": registers,
        "launches": len(functions),
    }


def launch_once(candidate: Candidate, cubins: Sequence[bytes]) -> dict[str, Any]:
    """Launch what a candidate consists of, and return its key."""
    (arrays,) = _copies(candidate, 1)
    for cubin, launch in zip(cubins, candidate["launches"], strict=True):
        function = _load(cubin, launch)
        function(
            (launch["blocks"],), (launch["threads"],), tuple(arrays[p] for p in launch["arrays"])
        )
    cp.cuda.Device().synchronize()
    return _key(candidate)


def _key(candidate: Candidate) -> dict[str, Any]:
    return {name: candidate[name] for name in ("workload", "dtype", "region", "schedule")}


def _load(cubin: bytes, launch: dict[str, Any]) -> cp.RawKernel:
    module = cp.RawModule(path=_saved(cubin))
    return module.get_function(launch["symbol"])


def _saved(cubin: bytes) -> str:
    path = Path("/tmp") / f"kernelwright-{abs(hash(cubin)):x}.cubin"
    path.write_bytes(cubin)
    return str(path)


def _copies(candidate: Candidate, most: int = _MOST_COPIES) -> list[list[cp.ndarray]]:
    inputs, others = (
        candidate["arrays"][: candidate["inputs"]],
        candidate["arrays"][candidate["inputs"] :],
    )
    nbytes = sum(_itemsize(dtype) * size for dtype, size, _ in inputs)
    number = int(np.clip(_ROTATION_BYTES // max(nbytes, 1), 1, most))
    random = cp.random.default_rng(0)
    copies = [
        [
            *(_array(random, *one) for one in inputs),
            *(cp.zeros(_itemsize(dtype) * size, cp.uint8) for dtype, size, _ in others),
        ]
        for _ in range(number)
    ]
    # The launches are on another stream, and may take what they read for an index.
    cp.cuda.Device().synchronize()
    return copies


def _itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _array(random: cp.random.Generator, dtype: str, size: int, limit: int) -> cp.ndarray:
    """Draw small normal numbers, integers of 0 and 1, and indices below a limit."""
    if limit:
        # Each once as far as that goes, as a token's experts are.
        every = cp.asnumpy(random.random(max(size, limit))).argsort() % limit
        return cp.asarray(every[:size].astype(dtype))
    is_bfloat = dtype == "bfloat16"
    if is_bfloat or np.issubdtype(np.dtype(dtype), np.floating):
        drawn = random.standard_normal(size, dtype=cp.float32) * cp.float32(0.5)
        return (drawn.view(cp.uint32) >> 16).astype(cp.uint16) if is_bfloat else drawn.astype(dtype)
    return random.integers(0, 2, size, dtype=cp.int32).astype(dtype)


def _record(work: Work, turns: int, stream: cp.cuda.Stream) -> Action:
    with stream:
        stream.begin_capture()
        for turn in range(turns):
            work(turn)
        graph = stream.end_capture()
    return lambda: graph.launch(stream)


def _replay(action: Action, stream: cp.cuda.Stream, replays: int = _REPLAYS) -> list[float]:
    times = []
    for _ in range(_WARM_UPS + replays):
        began, ended = cp.cuda.Event(), cp.cuda.Event()
        with stream:
            began.record(stream)
            action()
            ended.record(stream)
        ended.synchronize()
        times.append(cp.cuda.get_elapsed_time(began, ended) * 1e3)
    return times[_WARM_UPS:]


def _ceilings(stream: cp.cuda.Stream) -> dict[str, float]:
    """Time an empty kernel, and a copy far larger than the caches."""
    nothing = cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    nothing((1,), (32,), ())
    empty = _record(lambda _: nothing((1,), (32,), ()), _MOST_EMPTY, stream)
    source = cp.zeros(1 << 28, cp.float32)
    target = cp.empty_like(source)
    # Not recorded: as a node of a graph, a copy reaches two thirds of the bandwidth.
    copy_us = float(np.median(_replay(lambda: cp.copyto(target, source), stream)))
    launch_us = float(np.median(_replay(empty, stream))) / _MOST_EMPTY
    return {"launch_us": launch_us, "copy_bytes_per_s": 2 * source.nbytes / copy_us * 1e6}


def main() -> None:
    """Time what a pack holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--once", action="store_true", help="launch everything once")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="leave out the rest then")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    packed = json.loads(gzip.decompress(arguments.pack.read_bytes()))
    candidates, headers = packed["candidates"], packed["headers"]
    jobs = [(one["text"], headers) for c in candidates for one in c["launches"]]
    with ProcessPoolExecutor() as pool:
        cubins = iter(list(pool.map(compile_text, jobs, chunksize=4)))
    stream = cp.cuda.Stream(non_blocking=True)
    chip = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    result: dict[str, Any] = {"chip": chip, **_ceilings(stream), "kernels": []}
    for candidate in candidates:
        if time.monotonic() - began_s > arguments.limit_s:
            break
        own = [next(cubins) for _ in candidate["launches"]]
        one = (
            launch_once(candidate, own)
            if arguments.once
            else time_candidate(candidate, own, stream)
        )
        result["kernels"].append(one)
        cp.get_default_memory_pool().free_all_blocks()
    arguments.out.write_text(json.dumps(result))
    done = f"{'launched' if arguments.once else 'timed'} {len(result['kernels'])} candidates"
    print(f"{done}; {result['launch_us']:.2f} us for an empty launch")


if __name__ == "__main__":
    main()
