"""What a function makes of its graph's outputs: kept beside a region, and as JSON."""

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.ir import Region, canonicalize, capture_labelled
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.nest import from_data, leaves, nest_of, source, to_data

_ROWS = (mx.zeros((8, 64)),)


def _returned(x: mx.array) -> dict[str | int, object]:
    scaled = x * 2
    return {"sum": (scaled.sum(-1), None), 3: [scaled, 1.5]}


def test_a_region_keeps_how_its_function_returns_what_it_makes() -> None:
    whole = canonicalize(capture_labelled(_returned, _ROWS, {}))
    task = Region(whole, tuple(range(len(whole.nodes)))).extract()
    assert source(task.results, ["a", "b"]) in (
        "{'sum': (b, None), 3: [a, 1.5]}",
        "{'sum': (a, None), 3: [b, 1.5]}",
    )
    order = [task.output_types[leaf.place].shape for leaf in leaves(task.results)]
    assert order == [(8,), (8, 64)]


def test_results_identify_nothing() -> None:
    def other(x: mx.array) -> list[object]:
        return list(_returned(x).values())

    one, two = (canonicalize(capture_labelled(f, _ROWS, {})) for f in (_returned, other))
    assert one == two
    assert one.fingerprint == two.fingerprint
    assert one.results != two.results


def test_results_survive_json() -> None:
    whole = canonicalize(capture_labelled(_returned, _ROWS, {}))
    assert Graph.from_json(whole.to_json()).results == whole.results


@pytest.mark.parametrize("value", [{1, 2}, object(), {(1, 2): mx.zeros(2)}])
def test_what_has_no_literal_is_no_nest(value: object) -> None:
    assert nest_of(value, lambda v: isinstance(v, mx.array)) is None


@pytest.mark.parametrize("data", [["set", [], []], {"output": "x"}, [1]])
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises(InputError, match="expected a nest of outputs"):
        from_data(data)


def test_a_bare_array_is_a_leaf() -> None:
    tree = nest_of(mx.zeros(2), lambda v: isinstance(v, mx.array))
    assert from_data(to_data(tree)) == tree
    assert source(tree, ["y"]) == "y"
