"""Packed weights mean what MLX unpacks."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir.ops.weight import FLOAT_MODES, dequantized, dequantized_floats


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_levels_of_any_width_are_unpacked(bits: int) -> None:
    weights = mx.random.normal((4, 128), key=mx.random.key(bits))
    with mx.stream(mx.cpu):
        packed, scales, biases = mx.quantize(weights, 64, bits)
        expected = np.array(mx.dequantize(packed, scales, biases, 64, bits))
    found = dequantized(np.array(packed), np.array(scales), np.array(biases), 64, bits)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_small_floats_are_unpacked(mode: str) -> None:
    bits, group_size = FLOAT_MODES[mode]
    weights = mx.random.normal((4, 128), key=mx.random.key(bits))
    with mx.stream(mx.cpu):
        made: Sequence[mx.array] = mx.quantize(weights, group_size, bits, mode=mode)
        packed, scales = made[0], made[1]
        expected = np.array(
            mx.dequantize(packed, scales, None, group_size, bits, mode=mode).astype(mx.float32)
        )
    found = dequantized_floats(np.array(packed), np.array(scales), mode)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
