"""Dequantization is one op, however MLX's trace took it apart, and replays the same bits."""

from collections.abc import Callable
from functools import partial

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import canonicalize, capture, interpret, reference
from kernelwright.ir.ops.weight import FLOAT_MODES

CASES = [
    (bits, group_size, dtype)
    for bits, group_size, dtype in (
        (2, 128, mx.float16),
        (3, 64, mx.bfloat16),
        (4, 32, mx.float32),
        (5, 128, mx.float16),
        (6, 32, mx.float32),
        (8, 64, mx.bfloat16),
    )
]


@pytest.mark.parametrize(("bits", "group_size", "dtype"), CASES)
@pytest.mark.parametrize("shape", [(6, 128), (1, 256), (2, 3, 128)])
def test_a_dequantization_is_one_op(
    bits: int, group_size: int, dtype: mx.Dtype, shape: tuple[int, ...]
) -> None:
    def dequantize(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.dequantize(packed, scales, biases, group_size, bits)

    with mx.stream(mx.cpu):
        weights = mx.random.normal(shape, key=mx.random.key(bits)).astype(dtype)
        arrays = mx.quantize(weights, group_size, bits)
        graph = canonicalize(capture(dequantize, *arrays))
        (node,) = graph.nodes
        assert node.op == "dequantize"
        assert dict(node.attributes) == {"group_size": group_size, "bits": bits}
        expected = dequantize(*arrays)
        assert mx.array_equal(interpret(graph, *arrays)[0], expected)
        wide = [np.array(a.astype(mx.float32)) if a.dtype == dtype else np.array(a) for a in arrays]
        exact = reference(graph, wide)[0]
        assert np.allclose(np.array(expected.astype(mx.float32)), exact, rtol=0.02, atol=0.02)


def test_other_shifts_stay_what_they_are() -> None:
    def unpack(packed: mx.array, scales: mx.array) -> mx.array:
        shifts = mx.arange(0, 32, 4, dtype=mx.uint32)
        digits = mx.right_shift(packed[..., None], shifts) & 7
        return digits.reshape(4, 2, 64).astype(mx.float32) * scales[..., None] + scales[..., None]

    graph = canonicalize(capture(unpack, mx.zeros((4, 16), mx.uint32), mx.zeros((4, 2))))
    assert "dequantize" not in {node.op for node in graph.nodes}


def _spelled(
    packed: mx.array, scales: mx.array, biases: mx.array, *, step: int = 4, down: int = 28
) -> mx.array:
    """Return 4-bit weights by the shifts of MLX's CPU trace, all operands the other way round."""
    digits = [(packed << (28 - step * i))[..., None] >> down for i in range(8)]
    groups = mx.concatenate(digits, axis=-1).reshape(4, 2, 32)
    wide = scales if scales.ndim == 3 else scales[..., None]
    return (biases[..., None] + wide * groups.astype(scales.dtype)).flatten(-2)


def _ops_of(function: Callable[..., mx.array]) -> set[str]:
    arrays = [mx.zeros((4, 8), mx.uint32), mx.zeros((4, 2)), mx.zeros((4, 2))]
    with mx.stream(mx.cpu):
        return {node.op for node in canonicalize(capture(function, *arrays)).nodes}


def test_digits_are_recognised_whichever_operand_comes_first() -> None:
    assert "dequantize" in _ops_of(_spelled)


def _masked(
    packed: mx.array, scales: mx.array, biases: mx.array, *, step: int = 4, mask: int = 15
) -> mx.array:
    """Return 4-bit weights as people unpack them: all digits of a word by one shift and a mask."""
    digits = (packed[..., None] >> mx.arange(0, 8 * step, step, dtype=mx.uint32)) & mask
    groups = digits.reshape(4, 2, 32).astype(scales.dtype)
    return (groups * scales[..., None] + biases[..., None]).reshape(4, 64)


def _stacked(
    packed: mx.array, scales: mx.array, biases: mx.array, *, step: int = 4, mask: int = 15
) -> mx.array:
    digits = mx.stack([(packed >> (step * i)) & mask for i in range(8)], axis=-1)
    groups = digits.reshape(4, 2, 32).astype(scales.dtype)
    return (groups * scales[..., None] + biases[..., None]).reshape(4, 64)


@pytest.mark.parametrize("unpacked", [_masked, _stacked])
def test_digits_that_are_shifted_and_masked_are_weights(
    unpacked: Callable[..., mx.array],
) -> None:
    assert "dequantize" in _ops_of(unpacked)
    with mx.stream(mx.cpu):
        arrays = mx.quantize(mx.random.normal((4, 64), key=mx.random.key(0)), 32, 4)
        graph = canonicalize(capture(unpacked, *arrays))
        assert mx.array_equal(interpret(graph, *arrays)[0], unpacked(*arrays))


@pytest.mark.parametrize("unpacked", [_masked, _stacked])
@pytest.mark.parametrize(("step", "mask"), [(2, 15), (4, 7), (4, 14), (3, 7)])
def test_digits_under_another_mask_are_no_weights(
    unpacked: Callable[..., mx.array], step: int, mask: int
) -> None:
    assert "dequantize" not in _ops_of(partial(unpacked, step=step, mask=mask))


@pytest.mark.parametrize("unpacked", [_masked, _stacked, _spelled])
def test_digits_of_words_with_a_sign_are_no_weights(unpacked: Callable[..., mx.array]) -> None:
    def signed(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return unpacked(packed.astype(mx.int32), scales, biases)

    assert "dequantize" not in _ops_of(signed)


@pytest.mark.parametrize(("step", "down"), [(2, 28), (4, 27)])
def test_other_digits_are_no_weights(step: int, down: int) -> None:
    assert "dequantize" not in _ops_of(partial(_spelled, step=step, down=down))


def test_scales_that_follow_the_digits_are_no_scales_of_groups() -> None:
    def along(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return _spelled(packed, mx.tile(scales, (1, 32)).reshape(4, 2, 32), biases)

    assert "dequantize" not in _ops_of(along)


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_products_with_weights_of_small_floats_mean_what_mlx_computes(mode: str) -> None:
    bits, group_size = FLOAT_MODES[mode]

    def product(x: mx.array, packed: mx.array, scales: mx.array) -> mx.array:
        return mx.quantized_matmul(
            x, packed, scales, transpose=True, group_size=group_size, bits=bits, mode=mode
        )

    with mx.stream(mx.cpu):
        weights = mx.random.normal((8, 128), key=mx.random.key(bits)) * 3
        packed, scales = list(mx.quantize(weights, group_size=group_size, bits=bits, mode=mode))
        x = mx.random.normal((3, 128), key=mx.random.key(0))
        graph = canonicalize(capture(product, x, packed, scales))
        expected = np.array(product(x, packed, scales))
        (exact,) = reference(graph, [np.array(a) for a in (x, packed, scales)])
    assert np.allclose(expected, exact, rtol=1e-4, atol=1e-4)
