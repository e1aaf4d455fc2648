"""Inputs that somebody states: made as they say, refused where no caller may pass them."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.inputs.stated_case import (
    Edit,
    InputRecipe,
    Recipe,
    StatedCase,
    StatedCaughtCase,
)
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

GRAPH = canonicalize(capture(lambda x: x * 2, mx.zeros((3, 4), mx.float16)))
TAKE = canonicalize(
    capture(lambda x, i: mx.take(x, i, axis=0), mx.zeros((5, 2)), mx.zeros((3,), mx.int32))
)
DIVIDE = canonicalize(capture(lambda a: 12 // a, mx.zeros((4,), mx.int32)))


def _recipe(*inputs: InputRecipe) -> Recipe:
    return Recipe(inputs=inputs)


def test_edits_set_elements_in_memory_order() -> None:
    edit = Edit(start=1, stop=8, step=3, value="-inf")
    (made,) = _recipe(InputRecipe(fill="constant", value="7", edits=(edit,))).arrays(GRAPH)
    assert made.dtype == np.float16
    assert made.ravel().tolist() == [7, -np.inf, 7, 7, -np.inf, 7, 7, -np.inf, 7, 7, 7, 7]


def test_a_recipe_makes_the_same_inputs_again_whatever_the_secret() -> None:
    case = StatedCase.of(GRAPH, _recipe(InputRecipe()))
    assert np.array_equal(case.inputs("one")[0], case.inputs("another")[0])


@pytest.mark.parametrize(
    ("recipe", "graph", "reason"),
    [
        (_recipe(), GRAPH, "expected 1 inputs to be stated, found 0"),
        (_recipe(InputRecipe(value="much")), GRAPH, "expected a number"),
        (_recipe(InputRecipe(value="1e400")), GRAPH, "larger than float64 holds"),
        (_recipe(InputRecipe(fill="range", value="-1e400")), GRAPH, "larger than float64 holds"),
        (
            _recipe(InputRecipe(), InputRecipe(fill="constant", value="5")),
            TAKE,
            "indices: from 0 to below 5",
        ),
        (
            _recipe(InputRecipe(), InputRecipe(fill="constant", value="-1")),
            TAKE,
            "indices: from 0 to below 5",
        ),
        (_recipe(InputRecipe(fill="constant", value="0")), DIVIDE, "holds no zero"),
        (_recipe(InputRecipe(fill="constant", value="nan")), DIVIDE, "finite number for i32"),
        (_recipe(InputRecipe(fill="constant", value="1e30")), DIVIDE, "leave the range of i32"),
    ],
)
def test_what_no_caller_may_pass_is_refused(recipe: Recipe, graph: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        StatedCase.of(graph, recipe)  # type: ignore[arg-type]


@pytest.mark.parametrize("fill", ["normal", "uniform", "constant", "range"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "-1e39"])
def test_what_is_too_large_is_infinite_without_a_warning(value: str, fill: str) -> None:
    recipe = _recipe(InputRecipe.model_validate({"fill": fill, "value": value}))
    (made,) = recipe.arrays(GRAPH)
    assert not np.isfinite(made).all()


def test_a_caught_case_gives_its_inputs_again_from_json() -> None:
    case = StatedCase.of(GRAPH, _recipe(InputRecipe(fill="range", value="0.5")))
    kept = StatedCaughtCase.stated("task", case)
    again = StatedCaughtCase.model_validate_json(kept.model_dump_json()).case
    assert np.array_equal(again.inputs("")[0], case.inputs("")[0])
    assert again.name == case.name
