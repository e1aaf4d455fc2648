"""Dimensions follow from axes that are sums and products of them, and contradictions are named."""

import pytest
from pydantic import ValidationError

from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.input_dimension import Shape, dimension_sources
from kernelwright.metal.kernel import Kernel, Program, Tensor


def program(*shapes: Shape, out: Shape = (1,)) -> Program:
    names = "abcd"[: len(shapes)]
    return Program(
        inputs=tuple(
            Tensor(name=n, dtype=Dtype.FLOAT32, shape=s) for n, s in zip(names, shapes, strict=True)
        ),
        outputs=(Tensor(name="out", dtype=Dtype.FLOAT32, shape=out),),
        kernels=(
            Kernel(
                name="copy",
                inputs=tuple(names),
                outputs=("out",),
                source="out[0] = a[0];",
                grid=(1, 1, 1),
                threadgroup=(1, 1, 1),
            ),
        ),
    )


def sizes(of: Program, *shapes: tuple[int, ...]) -> dict[str, int]:
    return of.sizes_at([TensorType(shape, Dtype.FLOAT32) for shape in shapes])


@pytest.mark.parametrize(
    ("shapes", "actual", "expected"),
    [
        ([("past",), ("new",), ("past + new",)], [(5,), (3,), (8,)], {"past": 5, "new": 3}),
        # The sum alone tells what is new, whatever comes first.
        ([("past + new",), ("past", 4)], [(8,), (5, 4)], {"past": 5, "new": 3}),
        ([("2 * n + 1",), ("n - 1",)], [(9,), (3,)], {"n": 4}),
        ([("3 - n + 4",)], [(5,)], {"n": 2}),
        ([("batch * heads", 4), ("batch",)], [(6, 4), (2,)], {"batch": 2, "heads": 3}),
        # Other arithmetic is held against what other axes tell.
        ([("n",), ("ceildiv(n, 8)",)], [(17,), (3,)], {"n": 17}),
    ],
)
def test_dimensions_are_solved_from_sizes(
    shapes: list[Shape], actual: list[tuple[int, ...]], expected: dict[str, int]
) -> None:
    assert sizes(program(*shapes), *actual) == expected


def test_outputs_follow_dimensions_that_only_sums_tell() -> None:
    bound = program(("past + new",), ("past",), out=("new", "past + new")).bind(
        [TensorType((8,), Dtype.FLOAT32), TensorType((5,), Dtype.FLOAT32)]
    )
    assert bound.outputs[0].shape == (3, 8)


@pytest.mark.parametrize(
    ("shapes", "actual", "words"),
    [
        (
            [("past",), ("new",), ("past + new",)],
            [(5,), (3,), (9,)],
            r"c has past \+ new = 8 elements along axis 0 in the program, found 9\.",
        ),
        (
            [("past",), ("past + new",)],
            [(5,), (4,)],
            r"b has past \+ new elements along axis 0 .*, past = 5, found 4, which leaves no size",
        ),
        ([("2 * n",)], [(5,)], r"a has 2 \* n elements along axis 0 in the program, found 5"),
        ([("n",), ("n", "n - 1")], [(5,), (5, 5)], r"b has n - 1 = 4 elements along axis 1"),
    ],
)
def test_contradicting_sizes_are_refused_in_a_sentence(
    shapes: list[Shape], actual: list[tuple[int, ...]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        sizes(program(*shapes), *actual)


@pytest.mark.parametrize("shape", [("past + new",), ("n * n",), ("n // 8",)])
def test_a_dimension_that_no_axis_tells_is_refused(shape: Shape) -> None:
    with pytest.raises(ValidationError, match="no axis of an input tells"):
        program(shape)


def test_a_whole_axis_tells_a_name_before_a_sum_does() -> None:
    (past, new) = dimension_sources([("past + new",), ("new",), ("past",)])
    assert (past.name, past.input, new.name, new.input) == ("new", 1, "past", 2)
