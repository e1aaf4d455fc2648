"""An array that kernels hold by value is told from the same array after a change in place."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function import dispatch
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.unchanged import _Unchanged
from kernelwright.runtime.value import _Value

_ARRAYS: dict[str, Callable[[], mx.array]] = {
    "plain": lambda: mx.zeros((4, 4)),
    "transposed": lambda: mx.arange(12.0).reshape(3, 4).T,
    "broadcast": lambda: mx.broadcast_to(mx.array(1.0), (4, 4)),
    "bfloat16": lambda: mx.ones((4, 4), mx.bfloat16),
    "complex": lambda: mx.ones((4, 4), mx.complex64),
    "drawn": lambda: mx.random.normal((4, 4)),
    "scalar": lambda: mx.array(2.0),
}


@pytest.mark.parametrize("made", _ARRAYS)
@pytest.mark.parametrize("is_evaluated", [True, False])
def test_a_change_in_place_is_another_value(made: str, is_evaluated: bool) -> None:
    array = _ARRAYS[made]()
    if is_evaluated:
        mx.eval(array)
    value = _Value(array)
    assert value.holds()
    array[...] = 3
    assert not value.holds()
    assert value != _Value(array)


def test_every_change_in_place_counts_however_often() -> None:
    array = mx.zeros((64, 64))
    value = _Value(array)
    for column in range(8):
        array[0, column] = 1.0
        mx.eval(array)
        assert not value.holds()


def test_reading_an_array_is_no_change() -> None:
    array = mx.zeros((4, 4))
    value = _Value(array)
    mx.eval(mx.exp(array) + array.T, array[1:])
    assert value.holds()


def test_an_equal_array_is_another_one() -> None:
    array = mx.zeros((4, 4))
    assert not _Value(array).is_that_of(mx.zeros((4, 4)))


def test_an_empty_array_stays_what_it_is() -> None:
    assert _Value(mx.zeros((0, 4))).holds()


def test_an_array_of_a_trace_has_no_value() -> None:
    value = _Value(array := mx.zeros((4, 4)))
    seen: list[bool] = []

    def changing(x: mx.array) -> mx.array:
        array[...] = x
        seen.append(value.holds())
        return array * 2

    mx.export_function(lambda event: None, changing, mx.ones((4, 4)))
    assert seen == [False]


def _served(
    function: Callable[..., mx.array], fixed: list[mx.array], space: dict[str, object]
) -> Callable[..., mx.array]:
    captured = [(space, name) for name in space]
    call = _Call(((mx.zeros((4, 4)),), {}), captured)
    variant = dispatch._Variant(function, lambda *r: r[0], chip="", fixed=list(enumerate(fixed)))
    return dispatch._with_kernels(function, {call.key: [variant]}, captured).serves  # type: ignore[no-any-return, attr-defined]


def test_a_mask_that_kernels_hold_may_not_change_in_place() -> None:
    mask = mx.zeros((4, 4))
    space: dict[str, object] = {"mask": mask}

    def masked(x: mx.array) -> mx.array:
        return x + space["mask"]  # type: ignore[operator]

    serves = _served(masked, [mask], space)
    assert serves(mx.ones((4, 4)))
    mask[0, 3] = 1.0
    assert not serves(mx.ones((4, 4)))


_CLASS_MASK = mx.zeros((4, 4))


class _Masks:
    causal = _CLASS_MASK


def _by_class(x: mx.array) -> mx.array:
    return x + _Masks.causal


def _by_default(x: mx.array, mask: mx.array = _CLASS_MASK) -> mx.array:
    return x + mask


def _by_variable(mask: mx.array) -> Callable[[mx.array], mx.array]:
    return lambda x: x + mask


_PAIR = (_CLASS_MASK, 1)


def _by_tuple(x: mx.array) -> mx.array:
    return x + _PAIR[0]


@pytest.mark.parametrize("function", [_by_class, _by_default, _by_variable(_CLASS_MASK), _by_tuple])
def test_an_array_where_no_other_can_be_put_may_not_change_in_place(
    function: Callable[[mx.array], mx.array],
) -> None:
    unchanged = _Unchanged(function, None, ())
    assert unchanged()
    _CLASS_MASK[0, 3] += 1.0
    assert not unchanged()
    assert not unchanged()
