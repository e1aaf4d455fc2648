"""Results agree where rounding explains what differs, and nowhere else."""

from collections.abc import Sequence

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.agreement import disagreement


def _quantized(arrays: Sequence[mx.array]) -> list[mx.array]:
    (x,) = arrays
    return [mx.round(x * 10).astype(mx.int8)]


def _masked(arrays: Sequence[mx.array]) -> list[mx.array]:
    (x,) = arrays
    return [mx.where(x < 0.3, -mx.inf, x)]


def _cosine(arrays: Sequence[mx.array]) -> list[mx.array]:
    (x,) = arrays
    return [mx.cos(x)]


# The last but one element stands where the result jumps, up to its last bits.
_AT_A_STEP = mx.array([0.11, 0.42, 0.25000001, 0.97])
_AT_A_LIMIT = mx.array([0.11, 0.42, 0.30000001, 0.97])


@pytest.mark.parametrize("off", [-1, 1])
def test_a_quantizer_may_take_either_side_of_a_step(off: int) -> None:
    wanted = _quantized([_AT_A_STEP])
    found = [mx.array([1, 4, 2 if wanted[0][2].item() == 3 else 3, 10], mx.int8)]
    assert not disagreement(found, wanted, _quantized, [_AT_A_STEP], True)
    far = [wanted[0] + mx.array([0, off, 0, 0], mx.int8)]
    assert disagreement(far, wanted, _quantized, [_AT_A_STEP], True)


def test_a_step_further_is_a_difference() -> None:
    wanted = _quantized([_AT_A_STEP])
    found = [wanted[0] + mx.array([0, 0, 2, 0], mx.int8)]
    assert "other values" in disagreement(found, wanted, _quantized, [_AT_A_STEP], True)


def _companded(arrays: Sequence[mx.array]) -> list[mx.array]:
    (x,) = arrays
    return [mx.floor((x + 1) * 128).astype(mx.uint8)]


@pytest.mark.parametrize(("off", "many", "is_right"), [(1, 1, True), (1, 9, False), (2, 1, False)])
def test_a_step_that_no_inputs_bits_reach_is_rare_and_no_larger_than_others(
    off: int, many: int, is_right: bool
) -> None:
    x = mx.random.uniform(-1, 1, (40_000,), key=mx.random.key(0))
    # All but the first few moved by their last bits stay on one side of a step.
    x = mx.concatenate([mx.full((9,), -1e-12), mx.array([0.25, 0.5]), x])
    wanted = _companded([x])
    assert wanted[0][0].item() == 128
    shift = mx.where(mx.arange(x.size) < many, off, 0).astype(mx.uint8)
    found = [wanted[0] - shift]
    assert bool(disagreement(found, wanted, _companded, [x], True)) is not is_right


def test_a_threshold_may_take_either_side_where_the_value_stands() -> None:
    wanted = _masked([_AT_A_LIMIT])
    flipped = mx.where(mx.isfinite(wanted[0]), -mx.inf, _AT_A_LIMIT)
    at_limit = [mx.where(mx.arange(4) == 2, flipped, wanted[0])]
    assert not disagreement(at_limit, wanted, _masked, [_AT_A_LIMIT], True)
    elsewhere = [mx.where(mx.arange(4) == 1, flipped, wanted[0])]
    assert disagreement(elsewhere, wanted, _masked, [_AT_A_LIMIT], True)


def test_digits_that_the_input_lost_are_asked_of_nobody() -> None:
    angles = mx.array([1.0e6, 0.5])
    wanted = _cosine([angles])
    moved = _cosine([angles * (1 + mx.finfo(mx.float32).eps)])
    assert not disagreement(
        [mx.stack([moved[0][0], wanted[0][1]])], wanted, _cosine, [angles], True
    )
    assert disagreement([wanted[0] + mx.array([0, 0.01])], wanted, _cosine, [angles], True)


def test_other_shapes_dtypes_and_counts_are_named() -> None:
    wanted = [mx.zeros(4)]
    assert "expected 1" in disagreement([], wanted, list, [], True)
    assert "[2]" in disagreement([mx.zeros(2)], wanted, list, [], True)
    assert "float16" in disagreement([mx.zeros(4, mx.float16)], wanted, list, [], True)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_digits_that_half_precision_lost_are_asked_of_nobody(dtype: mx.Dtype) -> None:
    def eager(arrays: Sequence[mx.array]) -> list[mx.array]:
        # A sum in the input's own precision, which stops once an addend is less than half a bit.
        total = mx.zeros((), arrays[0].dtype)
        for element in arrays[0]:
            total = total + element
        return [total]

    x = mx.full((6000,), 0.5, dtype) if dtype == mx.float16 else mx.full((600,), 0.5, dtype)
    exact = [mx.array(0.5 * x.size, dtype)]
    wanted = eager([x])
    assert mx.all(mx.abs(wanted[0] - exact[0]) > 0.1 * exact[0])
    assert not disagreement(exact, wanted, eager, [x], True)
    assert disagreement([exact[0] * 1.2], wanted, eager, [x], True)
