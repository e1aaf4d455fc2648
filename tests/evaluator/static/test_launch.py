"""What is decided before anything is compiled: names, fit, limits, coverage."""

import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.static.launch import beyond_mlx, bytes_needed, check_launch, fit
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program

DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)


def changed(base: str, **kernel: object) -> Program:
    data = bases()[base].program.model_dump(mode="json")
    data["kernels"][0].update(kernel)
    return Program.model_validate(data)


def test_kernels_of_one_name_and_different_text_are_told_apart() -> None:
    plain = bases()["softmax"].program
    names = {
        normalise(p).kernels[0].name
        for p in (
            plain,
            changed("softmax", source="y[0] = x[0];"),
            changed("softmax", header="inline void a() {}"),
            changed("softmax", math_mode="fast"),
        )
    }
    assert len(names) == 4
    assert all(name.startswith("softmax_") for name in names)


def test_comments_change_neither_name_nor_line() -> None:
    source = bases()["softmax"].program.kernels[0].source
    commented = normalise(changed("softmax", source=f"/* x_shape */{source}// x_strides"))
    text = commented.kernels[0].source
    assert "x_shape" not in text
    assert "x_strides" not in text
    assert text.count("\n") == source.count("\n")


def test_normalising_twice_changes_nothing() -> None:
    once = normalise(bases()["softmax"].program)
    assert normalise(once) == once


def test_a_program_for_another_dtype_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"a is bf16\[rows,cols\] in the program, found f32"):
        fit(bases()["swiglu"].program, task_of("strided").graph)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ({"threadgroup": (64, 32, 1)}, "has 2048 threads, this device allows 1024"),
        ({"grid": (2, 1, 1), "source": "y[thread_position_in_grid.x] = 0;"}, "cannot write"),
    ],
)
def test_an_impossible_launch_is_refused(kernel: dict[str, object], message: str) -> None:
    bound = fit(changed("softmax", **kernel), task_of("softmax").graph)
    assert message in check_launch(bound, DEVICE)[0].message


@pytest.mark.parametrize("base", sorted(bases()))
def test_an_honest_launch_is_possible(base: str) -> None:
    bound = fit(bases()[base].program, task_of(base).graph)
    assert check_launch(bound, DEVICE) == ()
    assert bytes_needed(bound) > 0


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ({"grid": (1 << 31, 1, 1)}, "a grid is at most 2147483647"),
        ({"threadgroup": (1, 1, 1 << 40)}, "a threadgroup is at most 2147483647"),
        ({"template": {"width": 1 << 31}}, "width is an int of 32 bits"),
        ({"template": {"width": -(1 << 31) - 1}}, "width is an int of 32 bits"),
    ],
)
def test_numbers_that_mlx_cannot_take_are_told(kernel: dict[str, object], message: str) -> None:
    bound = fit(changed("softmax", **kernel), task_of("softmax").graph)
    assert message in beyond_mlx(bound)


def test_the_largest_numbers_that_mlx_takes_are_fine() -> None:
    edge = {"grid": ((1 << 31) - 1, 1, 1), "template": {"width": -(1 << 31), "on": True}}
    assert not beyond_mlx(fit(changed("softmax", **edge), task_of("softmax").graph))
