"""No conversation about any task of the catalog or the yardstick opens with more than 40 KB."""

from itertools import groupby

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.text.coder_prompt import Brief, Start, coder_prompt
from kernelwright.campaign.agent_bench import bench_tasks
from kernelwright.evaluator.task import Task
from kernelwright.ir import Dtype, Graph, canonicalize, capture
from kernelwright.ir.trace.replay import to_mlx_dtype
from tests.agents.loopback.scene import DEVICE

MOST = 40_000
_HISTORY = 13_000
"""Bytes that the best program, its profile, inspirations, lessons and attempts may add at most."""
GROUPS = {
    group: tuple(entries)
    for group, entries in groupby(catalog.entries(), key=lambda entry: entry.group)
}


def opening_bytes(graph: Graph, name: str) -> int:
    prompt = coder_prompt(Task(graph, name), DEVICE, (), Brief(start=Start()))
    return max(prompt.opening_bytes, planner_prompt(graph, DEVICE).opening_bytes)


@pytest.mark.parametrize("group", GROUPS)
def test_the_catalogs_tasks_leave_room_for_the_best_program(group: str) -> None:
    for entry in GROUPS[group]:
        arrays = [mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in entry.types(Dtype.FLOAT16)]
        graph = canonicalize(capture(entry.function, *arrays))
        assert opening_bytes(graph, entry.name) <= MOST - _HISTORY, entry.name


def test_the_yardsticks_tasks_leave_room_for_the_best_program() -> None:
    for task in bench_tasks():
        arrays = [mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in task.inputs]
        graph = canonicalize(capture(task.function, *arrays))
        assert opening_bytes(graph, task.name) <= MOST - _HISTORY, task.name
