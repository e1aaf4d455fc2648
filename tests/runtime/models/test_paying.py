"""Kernels stay in a model only where its whole step is faster with them."""

import time
from collections.abc import Sequence

import mlx.core as mx

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.runtime.models.install import Installation, is_settled, optimize_model
from kernelwright.runtime.models.paying import Part, best, finalists, is_faster
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.target import build_model
from tests.runtime.models.replaying import Replaying, decode, served_classes
from tests.runtime.models.test_first_use import CONFIG


class Timed(Replaying):
    """Its kernels cost host time: those of some operations a lot."""

    measures_time = True

    def __init__(self, slow: str, pause_s: float = 0.005) -> None:
        super().__init__()
        self._slow = slow
        self._pause_s = pause_s
        self.slow_runs = 0

    def _program(self, task: Graph) -> RunRegion:
        run = super()._program(task)
        is_slow = self._slow in ir.operation(task)

        def late(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            if is_slow:
                self.slow_runs += 1
                time.sleep(self._pause_s)
            return run(arrays)

        return late


def test_kernels_that_slow_the_step_are_taken_out() -> None:
    model = build_model(CONFIG)
    tokens = decode(model, 8)[0]
    server = Timed(slow="rms_norm")
    optimize_model(model, server)
    for _ in range(20):
        assert decode(model, 32)[0][:8] == tokens
        if is_settled(model):
            break
    assert is_settled(model)
    before = server.slow_runs
    decode(model, 1)
    in_prompt = server.slow_runs - before
    decode(model, 8)
    # The prompt alone still runs them: its kind of call does not follow itself.
    assert server.slow_runs - before == 2 * in_prompt > 0
    assert served_classes(model)


def test_a_model_whose_kernels_are_no_gain_says_so() -> None:
    model = build_model(CONFIG)
    server = Timed(slow="", pause_s=0.001)
    optimize_model(model, server)
    for _ in range(20):
        decode(model, 32)
        if is_settled(model):
            break
    site = site_of(model)
    assert site is not None
    assert isinstance(site.owner, Installation)
    assert site.owner.trials.is_no_gain


NORM, PRODUCT = ("Layer", "norm"), ("Layer", "product")
BOTH, NONE = frozenset({NORM, PRODUCT}), frozenset[Part]()


def test_what_costs_time_by_itself_is_left_out() -> None:
    medians = {BOTH: 1.0, NONE: 1.2, BOTH - {NORM}: 0.8, BOTH - {PRODUCT}: 1.3}
    assert finalists(BOTH, medians) == [BOTH, BOTH - {NORM}, NONE]


def test_no_kernels_stay_without_a_gain_that_can_be_told() -> None:
    assert best({BOTH: 1.0, NONE: 1.005}) == NONE
    assert best({BOTH: 1.0, NONE: 1.1}) == BOTH


SLOW, FAST = [1.2] * 6, [1.0] * 6


def test_kernels_stay_where_they_win_every_time() -> None:
    assert is_faster(FAST * 3, SLOW * 3)
    assert is_faster(SLOW * 3, FAST * 3) is False
    # No gain that can be told.
    assert is_faster(FAST * 3, [1.005] * 18) is False


def test_what_else_runs_meanwhile_neither_keeps_nor_removes_kernels() -> None:
    busy = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    assert is_faster([*busy, *FAST, *busy], [*SLOW, *SLOW, *SLOW])
    # A block that is lost asks for more turns, and one of six may be lost.
    disturbed = [*FAST, *FAST, *[3.0] * 6]
    assert is_faster(disturbed, SLOW * 3) is None
    assert is_faster([*disturbed, *FAST * 3], SLOW * 6)


def test_turns_end_where_nothing_can_be_told() -> None:
    mixed, other = [*FAST, *FAST, *SLOW] * 3, [*SLOW, *SLOW, *FAST] * 3
    assert is_faster(mixed[:18], other[:18]) is not True
    assert is_faster(mixed, other) is False
