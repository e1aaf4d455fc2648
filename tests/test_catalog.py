"""Every task of the catalog is captured, rewritten and replayed to its function's own result."""

from itertools import groupby

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import catalog, ir
from kernelwright.errors import InputError
from kernelwright.ir import Dtype, TensorType

GROUPS = {
    group: tuple(entries)
    for group, entries in groupby(catalog.entries(), key=lambda entry: entry.group)
}
ADDITIVE = 1e-5
"""For results that are themselves differences of what was rounded."""


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.sampled(9)
def test_a_task_replays_to_its_functions_own_result(group: str) -> None:
    for entry in GROUPS[group]:
        arrays = [_array(t, place) for place, t in enumerate(entry.types(Dtype.FLOAT32))]
        wanted = entry.function(*arrays)
        graph = ir.capture(entry.function, *arrays)
        exact = ir.interpret(graph, *arrays)
        rewritten = ir.interpret(ir.canonicalize(graph), *arrays)
        for value, replayed, canonical in zip(
            wanted if isinstance(wanted, tuple) else (wanted,), exact, rewritten, strict=True
        ):
            expected = np.array(value)
            assert np.array_equal(np.array(replayed), expected, equal_nan=True), entry.name
            np.testing.assert_allclose(
                np.array(canonical), expected, rtol=1e-5, atol=ADDITIVE, err_msg=entry.name
            )


def test_names_are_distinct_and_every_task_says_what_it_computes() -> None:
    entries = catalog.entries()
    assert len(entries) >= 80
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.summary and entry.inputs for entry in entries)


def test_the_dtype_asked_for_is_that_of_floating_inputs() -> None:
    entry = catalog.find("masked_softmax")
    assert [t.dtype for t in entry.types(Dtype.FLOAT16)] == [Dtype.FLOAT16, Dtype.BOOL]


def test_an_unknown_task_is_one_sentence() -> None:
    with pytest.raises(InputError, match="found 'nothing'; list them with: kernelwright catalog"):
        catalog.find("nothing")


def _array(type_: TensorType, seed: int) -> mx.array:
    """Draw an input that suits its dtype; whole numbers stay small enough to index with."""
    random = np.random.default_rng(seed)
    if type_.dtype is Dtype.FLOAT32:
        return mx.array(random.uniform(0.1, 1.0, type_.shape).astype(np.float32))
    if type_.dtype is Dtype.BOOL:
        return mx.array(random.integers(0, 2, type_.shape).astype(np.bool_))
    return mx.array(random.integers(0, 8, type_.shape).astype(type_.dtype.numpy))
