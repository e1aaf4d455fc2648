"""Programs validate where they enter, survive JSON, and bind to concrete shapes."""

import pytest
from pydantic import ValidationError

from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program, Tensor, Tunable


def scale_rows(**changes: object) -> Program:
    fields: dict[str, object] = {
        "inputs": (Tensor(name="x", dtype=Dtype.FLOAT32, shape=("rows", 64)),),
        "outputs": (Tensor(name="y", dtype=Dtype.FLOAT32, shape=("rows", 64)),),
        "tunables": (Tunable(name="per_group", choices=(1, 2, 4), value=2),),
        "kernels": (
            Kernel(
                name="scale",
                inputs=("x",),
                outputs=("y",),
                source="uint i = thread_position_in_grid.x;\ny[i] = x[i] * 2;",
                template={"T": Dtype.FLOAT32, "ROWS": "rows", "FAST": True, "N": 4},
                grid=("rows * 64", 1, 1),
                threadgroup=("64 * per_group", 1, 1),
            ),
        ),
    }
    return Program.model_validate(fields | changes)


def test_program_survives_json() -> None:
    program = scale_rows()
    again = Program.model_validate_json(program.model_dump_json())
    assert again == program
    assert again.id == program.id
    assert again.kernels[0].template["T"] is Dtype.FLOAT32


def test_bind_fixes_every_extent() -> None:
    bound = scale_rows().bind([TensorType((5, 64), Dtype.FLOAT32)])
    (launch,) = bound.launches
    assert launch.grid == (320, 1, 1)
    assert launch.threadgroup == (128, 1, 1)
    assert dict(launch.template) == {"T": Dtype.FLOAT32, "ROWS": 5, "FAST": True, "N": 4}
    assert bound.type_of("y") == TensorType((5, 64), Dtype.FLOAT32)


def test_tuned_changes_the_launch_and_the_id() -> None:
    program = scale_rows()
    tuned = program.tuned({"per_group": 4})
    assert tuned.bind([TensorType((1, 64), Dtype.FLOAT32)]).launches[0].threadgroup[0] == 256
    assert tuned.id != program.id


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (TensorType((5, 65), Dtype.FLOAT32), "x has 64 elements along axis 1"),
        (TensorType((5, 64), Dtype.FLOAT16), r"x is f32\[rows,64\] in the program, found f16"),
        (TensorType((64,), Dtype.FLOAT32), r"x is f32\[rows,64\] in the program, found f32\[64\]"),
        (TensorType((0, 64), Dtype.FLOAT32), "sizes of at least 1"),
    ],
)
def test_bind_refuses_other_inputs(type_: TensorType, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scale_rows().bind([type_])


def test_one_symbol_means_one_size() -> None:
    square = scale_rows(inputs=(Tensor(name="x", dtype=Dtype.FLOAT32, shape=("rows", "rows")),))
    with pytest.raises(InputError, match="x has 5 elements along axis 1"):
        square.bind([TensorType((5, 6), Dtype.FLOAT32)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": ()}, "reads 'x' before it is made"),
        (
            {"outputs": (Tensor(name="z", dtype=Dtype.FLOAT32, shape=(1,)),)},
            "cannot write 'y', which is no array of the program; expected z",
        ),
        (
            {"outputs": (Tensor(name="y", dtype=Dtype.FLOAT32, shape=("depth",)),)},
            "unknown dimension depth in the shape of y; expected whole numbers",
        ),
        (
            {"temporaries": (Tensor(name="x", dtype=Dtype.FLOAT32, shape=(1,)),)},
            "share a name",
        ),
        ({"extra": 1}, "Extra inputs are not permitted"),
    ],
)
def test_inconsistent_program_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scale_rows(**changes)


def test_tunable_value_is_one_of_its_choices() -> None:
    with pytest.raises(ValidationError, match="expected one of"):
        Tunable(name="n", choices=(1, 2), value=3)
