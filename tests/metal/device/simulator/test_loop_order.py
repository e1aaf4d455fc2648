"""A loop is one stretch of the order, and what follows it stands behind its end."""

import pytest

from kernelwright.metal.device.simulator.loop_order import loop_order

_GRAPHS = {
    "a branch": {"a": "bc", "b": "d", "c": "d", "d": ""},
    "an exit that is listed first": {"a": "b", "b": "dc", "c": "b", "d": ""},
    "loops in a loop": {"a": "b", "b": "c", "c": "cd", "d": "eb", "e": "fe", "f": "bg", "g": ""},
    "two ways into a loop": {"a": "bc", "b": "c", "c": "bd", "d": ""},
}


@pytest.mark.parametrize("graph", _GRAPHS.values(), ids=_GRAPHS)
def test_no_edge_goes_back_but_to_the_head_of_a_loop_that_holds_it(graph: dict[str, str]) -> None:
    places = loop_order(graph, "a", 1)

    assert places.keys() == graph.keys()
    for block, following in graph.items():
        for other in following:
            is_forward = places[block].order < places[other].order
            assert is_forward or places[block].order < places[other].end


def test_what_follows_a_loop_comes_after_its_end() -> None:
    places = loop_order(_GRAPHS["loops in a loop"], "a", 1)

    assert places["b"].end > max(places[p].order for p in "bcdef")
    assert places["b"].end < places["g"].order
    assert places["c"].end < places["d"].order


def test_thousands_of_blocks_in_a_row_are_ordered() -> None:
    row: dict[str, tuple[str, ...]] = {str(i): (str(i + 1),) for i in range(5000)} | {"5000": ()}

    assert loop_order(row, "0", 1)["5000"].order == 5001
