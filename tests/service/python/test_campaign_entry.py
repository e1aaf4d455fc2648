"""Functions at hand stand in a campaign's tables as those of files do, with their inputs."""

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.service.python import campaign


def doubled(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1) * 2


def test_a_function_takes_inputs_as_types_or_arrays_beside_it() -> None:
    functions = [
        {"target": doubled, "inputs": ["f32[4,64]"], "priority": 2},
        {"target": doubled, "inputs": [mx.zeros((8, 64))]},
        "catalog:softmax:f32",
    ]
    spec, given = campaign._night({"functions": functions})
    found = dict(campaign._captured(spec, given, None))
    shapes = [f.graph.input_types[0].shape for c in found.values() for f in c.functions]
    assert [entry.priority for entry in found] == [2, 1, 1]
    assert shapes[:2] == [(4, 64), (8, 64)]
    assert [entry.inputs for entry in found][:2] == [("f32[4,64]",), ("f32[8,64]",)]


def test_a_wrong_entry_is_told_in_one_sentence() -> None:
    with pytest.raises(InputError, match="prio is no key of a campaign"):
        campaign._night({"functions": [{"target": doubled, "inputs": ["f32[4]"], "prio": 2}]})
