"""Arrays lie alone, between canaries, and leave nothing behind."""

import numpy as np
import pytest

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.memory import FencedMemory, GuardedArray

TYPE = TensorType.parse("f32[8]")
MANY = 2500
"""Fences of 32 GB; no process can hold twice as many."""


def guarded() -> GuardedArray:
    return GuardedArray.of(TYPE, poison=0x5A, padding=256, init_value=1.0)


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 100_000])
def test_canaries_reach_to_the_ends_of_the_memory(nbytes: int) -> None:
    memory = FencedMemory.of(nbytes, canary=0x5A, padding=100)
    assert (memory.start, memory.data.size) == (256, nbytes)
    memory.data[:] = 1
    assert memory.is_intact
    for place in (0, memory.start - 1, memory.stop, memory.raw.size - 1):
        memory.raw[place] ^= 1
        assert not memory.is_intact
        memory.raw[place] ^= 1


def test_fences_are_given_back() -> None:
    for _ in range(3):
        arrays = [guarded() for _ in range(MANY)]
        assert all(array.is_intact for array in arrays)
        del arrays


def test_small_results_outlive_their_fence() -> None:
    results = [guarded().result for _ in range(3 * MANY)]
    np.testing.assert_array_equal(results, 1)


def test_arrays_do_not_begin_at_one_distance_from_a_large_power_of_two() -> None:
    places = {guarded().array.ctypes.data % (1 << 20) for _ in range(20)}
    assert len(places) > 15


def test_padding_hangs_on_the_seed_alone_and_is_never_less_than_asked() -> None:
    drawn = [RunOptions(padding_seed=seed).padding_before("y") for seed in range(1, 200)]
    assert drawn == [RunOptions(padding_seed=seed).padding_before("y") for seed in range(1, 200)]
    assert min(drawn) >= 256
    assert len(set(drawn)) > 30
    assert not any(before % 256 for before in drawn)
    on_a_page = sum(before % 16384 == 0 for before in drawn)
    assert 20 < on_a_page < 90
    assert RunOptions().padding_before("y") == 256


@pytest.mark.parametrize("before", [256, 5120, 16384])
def test_an_array_lies_behind_the_padding_that_was_drawn(before: int) -> None:
    made = GuardedArray.of(TYPE, poison=0x5A, padding=256, init_value=None, before=before)
    assert made.memory.start == before
    assert made.array.ctypes.data % 4096 == before % 4096
    made.memory.raw[before - 1] ^= 1
    assert not made.is_intact


def test_a_drawn_place_says_nothing_of_the_order_of_two_arrays() -> None:
    options = [RunOptions(padding_seed=seed) for seed in range(1, 33)]
    places = {name: [_address(o.placement(name)) for o in options] for name in ("x", "y")}
    above = sum(x > y for x, y in zip(places["x"], places["y"], strict=True))
    assert 4 < above < 28


def _address(placement: int) -> int:
    memory = FencedMemory.of(4096, canary=0, padding=256, placement=placement)
    return int(memory.data.ctypes.data)
