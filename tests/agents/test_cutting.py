"""Functions are cut side by side, and told in their order."""

import threading

import mlx.core as mx

from kernelwright.agents.protocols import Plan
from kernelwright.campaign import Subject, capture_subjects
from kernelwright.campaign.execution.function_cutting import plan_functions
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.history.pausing import Pause
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo
from tests.agents.loopback.scene import DEVICE, double_plus_one


class Pair:
    """Answers nobody before two have asked, as a model that several wait for."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=120)

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        self.both.wait()
        return Plan(regions=(), author="pair")


def test_functions_wait_for_their_models_side_by_side() -> None:
    subjects = [
        Subject(f"rows{n}", double_plus_one, (mx.zeros((n, 8)),), {}, "rows.py")
        for n in (2, 3, 4, 5)
    ]
    control = RunControl(Pause(), lambda event: None)
    plans = plan_functions(capture_subjects(subjects), Pair(), DEVICE, control)
    assert [plan.subject.name for plan in plans] == ["rows2", "rows3", "rows4", "rows5"]


class Unlucky(Pair):
    """A planner that fails at one function."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        if graph.input_types[0].shape[0] == 3:
            raise ZeroDivisionError("a slip")
        return Plan(regions=(), author="pair")


def test_a_function_that_cannot_be_cut_stays_with_mlx_and_the_others_go_on() -> None:
    subjects = [
        Subject(f"rows{n}", double_plus_one, (mx.zeros((n, 8)),), {}, "rows.py") for n in (2, 3, 4)
    ]
    control = RunControl(Pause(), lambda event: None)
    plans = list(plan_functions(capture_subjects(subjects), Unlucky(), DEVICE, control))
    assert [plan.author for plan in plans] == ["pair", "nobody", "pair"]
    (left,) = plans[1].left
    assert left.reason == "ZeroDivisionError: a slip"
