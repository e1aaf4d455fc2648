"""Predicts the time of every promising schedule of catalog tasks, for policies to search in."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from kernelwright import catalog
from kernelwright.agents.offline.tuner import promising
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.speed.prediction import predict_program
from kernelwright.ir import Graph, canonicalize, capture, gather_attention
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.perf import find_profile
from kernelwright.metal.schedule import parse, render
from kernelwright.plan import partition

PATH = Path(__file__).parents[1] / "results" / "landscape.json"
_CHIP = "m4-pro"
_MOST_ELEMENTS = 1 << 19
_GROUPS = (
    *("softmax", "norm", "reduction", "gradient", "activation", "glu", "scan", "rope", "loss"),
    *("quantization", "optimizer", "bits", "moe"),
)
"""Groups whose kernels the simulator counts within a second."""
_MOST_SCHEDULES = 32
_TIMEOUT_S = 20.0


class Landscape(Record):
    """A task and the predicted time of each of its schedules."""

    task: str
    inputs: tuple[str, ...]
    graph: str
    microseconds: dict[str, float]
    """By schedule, in the order in which the planner lists them."""


LANDSCAPES = TypeAdapter(tuple[Landscape, ...])


def measure(count: int, dtype: Dtype, path: Path = PATH) -> None:
    """Write landscapes of `count` tasks that have a choice; what the file has is kept."""
    known = {found.task: found for found in read(path)} if path.exists() else {}
    for entry in catalog.entries():
        if len(known) >= count:
            break
        if entry.name in known or entry.group not in _GROUPS:
            continue
        started_s = time.monotonic()
        try:
            graph = _graph_of(entry, dtype)
            found = None if graph is None else _landscape(entry.name, graph)
        except (KernelwrightError, ValueError) as e:
            print(f"{entry.name}: {e}", flush=True)
            continue
        if found is None or len(found.microseconds) < 8:
            continue
        if _fingerprint(found) in map(_fingerprint, known.values()):
            continue
        known[entry.name] = found
        took_s = time.monotonic() - started_s
        print(f"{entry.name}: {len(found.microseconds)} schedules, {took_s:.0f} s", flush=True)
        _write(path, list(known.values()))


def read(path: Path = PATH) -> tuple[Landscape, ...]:
    """Read what `measure` wrote; decisions that came later have their defaults."""
    return tuple(
        found.model_copy(
            update={"microseconds": {render(parse(s)): us for s, us in found.microseconds.items()}}
        )
        for found in LANDSCAPES.validate_json(path.read_text())
    )


def _write(path: Path, landscapes: Sequence[Landscape]) -> None:
    path.write_text(json.dumps([found.model_dump() for found in landscapes], indent=1) + "\n")


def _graph_of(entry: catalog.Entry, dtype: Dtype) -> Graph | None:
    """Return a task's graph where it is one region of a moderate size."""
    import mlx.core as mx

    types = entry.types(dtype)
    if sum(t.size for t in types) > _MOST_ELEMENTS:
        return None
    names = ["bool_" if t.dtype is Dtype.BOOL else t.dtype.value for t in types]
    inputs = [
        mx.zeros(t.shape, dtype=getattr(mx, name)) for t, name in zip(types, names, strict=True)
    ]
    graph = gather_attention(canonicalize(capture(entry.function, *inputs)))
    regions = partition(graph)
    return regions[0].extract() if len(regions) == 1 else None


def _landscape(name: str, graph: Graph) -> Landscape | None:
    device = SimulatorDevice()
    space = promising(graph, schedules(graph, device.info), device.info)
    step = max(len(space) / _MOST_SCHEDULES, 1.0)
    chosen = [space[int(i * step)] for i in range(min(len(space), _MOST_SCHEDULES))]
    inputs = list(_inputs(graph))
    times: dict[str, float] = {}
    for schedule in chosen:
        bound = lower(graph, schedule).bind(graph.input_types)
        try:
            result = device.compile(bound).run(inputs, RunOptions(count=True, timeout_s=_TIMEOUT_S))
        except KernelwrightError:
            continue
        predicted = predict_program(result.counters, find_profile(_CHIP))
        times[render(schedule)] = round(predicted.microseconds, 4)
    types = tuple(map(str, graph.input_types))
    return Landscape(task=name, inputs=types, graph=graph.to_json(), microseconds=times)


def _inputs(graph: Graph) -> Iterator[Array]:
    draw = np.random.default_rng(0)
    for type_ in graph.input_types:
        kind = type_.dtype.numpy
        if np.issubdtype(kind, np.integer) or kind == np.bool_:
            yield draw.integers(0, 2, type_.shape).astype(kind)
        else:
            yield draw.standard_normal(type_.shape).astype(kind)


def _fingerprint(found: Landscape) -> str:
    return Graph.from_json(found.graph).fingerprint
