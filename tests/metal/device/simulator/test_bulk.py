"""Large arrays are copied, filled and compared part by part, to the last byte."""

import numpy as np
import pytest

from kernelwright.metal.device.simulator import bulk

SIZES = (0, 1, 7, 8, 4097, (1 << 21) + 3, (1 << 24) + 13)


@pytest.fixture(params=[1, 3])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "core_count", lambda: request.param)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.usefixtures("cores")
def test_every_byte_is_copied_and_compared(size: int) -> None:
    source = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    target = np.zeros(size, np.uint8)
    bulk.copy(target, source)
    assert np.array_equal(target, source)
    assert bulk.are_same(target, source)
    for place in {0, size // 2, size - 1} if size else ():
        target[place] ^= 1
        assert not bulk.are_same(target, source)
        target[place] ^= 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.usefixtures("cores")
def test_every_byte_is_filled(size: int) -> None:
    target = np.zeros(size, np.uint8)
    bulk.fill(target, 0xAB)
    assert (target == 0xAB).all()


@pytest.mark.usefixtures("cores")
def test_places_of_no_word_are_compared() -> None:
    whole = np.arange(1 << 16, dtype=np.uint8)
    one, other = whole[3:-2], whole.copy()[3:-2]
    assert bulk.are_same(one, other)
    other[-1] ^= 1
    assert not bulk.are_same(one, other)
