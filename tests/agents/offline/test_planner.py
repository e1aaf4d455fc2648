"""The offline planner fuses what lowers, and gives a reason for the rest."""

import mlx.core as mx
import pytest

from kernelwright.agents.offline import OfflineCoder, OfflinePlanner
from kernelwright.agents.protocols import Plan
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import Schedule

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def block(x: mx.array, weight: mx.array, up: mx.array, down: mx.array) -> mx.array:
    normed = mx.fast.rms_norm(x, weight, 1e-5)
    return x + mx.sigmoid(normed @ up) @ down * 0.5


@pytest.fixture
def graph() -> Graph:
    square = mx.zeros((64, 64))
    return canonicalize(capture(block, mx.zeros((96, 64)), mx.zeros((64,)), square, square))


@pytest.fixture
def plan(graph: Graph) -> Plan:
    return OfflinePlanner().plan(graph, DEVICE)


def test_regions_are_disjoint_and_every_one_lowers(graph: Graph, plan: Plan) -> None:
    nodes = [i for region in plan.regions for i in region.indices]
    assert nodes
    assert len(nodes) == len(set(nodes))
    for region in plan.cut(graph):
        assert OfflineCoder().write(Task(region.extract(), "region"), DEVICE, (), count=1)


def test_contractions_are_left_with_a_reason(plan: Plan) -> None:
    assert dict(plan.left)["matmul"] == "it is a contraction op, which is left to MLX"


def test_the_benefit_counts_launches_and_bytes(plan: Plan) -> None:
    assert "launches become one" in plan.regions[0].benefit


def test_an_empty_plan_is_a_plan() -> None:
    graph = canonicalize(capture(lambda x: x @ x, mx.zeros((96, 96))))
    assert OfflinePlanner().plan(graph, DEVICE).regions == ()


def test_layers_that_repeat_each_other_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def counted(task: Graph, schedule: Schedule) -> Program:
        written.append(task.fingerprint)
        return lower(task, schedule)

    def layers(x: mx.array, weight: mx.array) -> mx.array:
        for _ in range(3):
            x = mx.tanh(mx.sort(x + 1, axis=-1) * weight)
        return x

    monkeypatch.setattr("kernelwright.agents.offline.planner.lower", counted)
    graph = canonicalize(capture(layers, mx.zeros((8, 64)), mx.zeros((64,))))
    plan = OfflinePlanner().plan(graph, DEVICE)
    assert len(plan.regions) == 3
    assert len(written) == len(set(written))
