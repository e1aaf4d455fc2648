"""A plan's answer as source: names for places, calls as they were made."""

from collections.abc import Callable

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache

from kernelwright.runtime.models.cached_attention import append, fetched_from
from kernelwright.runtime.models.nest import Ref
from kernelwright.runtime.models.straight_line import StraightLine


def test_arguments_are_taken_from_their_nests() -> None:
    line = StraightLine()
    line.take((Ref(0), [Ref(1), 5], {"more": Ref(2)}), "args")
    line.take({"named": (Ref(3),)}, "kwargs")
    line.say(f"return {line.expression([Ref(3), (Ref(2),), {'x': Ref(1), 'y': None}, Ref(0)])}")
    made = line.function()((10, [11, 5], {"more": 12}), {"named": (13,)})
    assert made == [13, (12,), {"x": 11, "y": None}, 10]


def test_what_is_no_literal_is_handed_on_itself() -> None:
    line, thing = StraightLine(), object()
    template = (thing, mx.float16, 'a"b', True, -3)
    line.say(f"return {line.expression(template)}")
    found = line.function()((), {})
    assert found[0] is thing  # type: ignore[index]
    assert found[1:] == (mx.float16, 'a"b', True, -3)  # type: ignore[index]


def test_a_call_is_given_names_that_python_would_not_take() -> None:
    line = StraightLine()
    line.say(f"return dict({line.arguments((), {'a b': 1, 'c': 2})})")
    assert line.function()((), {}) == {"a b": 1, "c": 2}


def test_a_result_is_unpacked_once() -> None:
    calls = []

    def split(value: int) -> tuple[int, dict[str, int], list[int]]:
        calls.append(value)
        return value, {"x": value + 1}, [value + 2, value + 3]

    line = StraightLine()
    line.keep((Ref(0), {"x": Ref(1)}, [None, Ref(2)]), f"{line.name(split)}(7)")
    line.say("return (v0, v1, v2)")
    assert line.function()((), {}) == (7, 8, 10)
    assert calls == [7]


def test_a_result_with_other_parts_is_an_error() -> None:
    line = StraightLine()
    line.keep((Ref(0), Ref(1)), f"{line.name(lambda: (1, 2, 3))}()")
    with pytest.raises(ValueError, match="too many values to unpack"):
        line.function()((), {})


def token(seed: int, count: int = 1) -> mx.array:
    return mx.random.normal((1, 2, count, 4), key=mx.random.key(seed))


def rotating() -> RotatingKVCache:
    return RotatingKVCache(max_size=8, keep=2)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("make", [KVCache, rotating])
def test_a_cache_takes_in_what_it_would_have_taken(make: Callable[[], KVCache]) -> None:
    one, other = make(), make()
    for cache in (one, other):
        cache.update_and_fetch(token(1, 5), token(2, 5))  # type: ignore[no-untyped-call]
    for step in range(300):
        given = token(step + 3), token(step + 400)
        found = fetched_from(one, append(one, *given))
        expected = other.update_and_fetch(*given)  # type: ignore[no-untyped-call]
        assert one.offset == other.offset
        assert all(mx.array_equal(a, b) for a, b in zip(found, expected, strict=True))
