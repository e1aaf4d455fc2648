"""Programs from outside: what is read, and what is refused in one sentence."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.submission import LaunchText, program_of_body, read_body, read_program
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

GRAPH = task_of("softmax").graph


def test_a_programs_json_is_read_back(tmp_path: Path) -> None:
    program = bases()["softmax"].program
    path = tmp_path / "softmax.json"
    path.write_text(program.model_dump_json())
    assert read_program(path) == program


def test_a_body_becomes_a_program_with_the_tasks_types(tmp_path: Path) -> None:
    path = tmp_path / "my-kernel.metal"
    path.write_text("y[thread_position_in_grid.x] = x[thread_position_in_grid.x];")
    launch = LaunchText(grid="min(900, 1000), 1", inputs=("x",), outputs=("y",))
    program = read_body(path, GRAPH, launch)
    assert program.bind(GRAPH.input_types).outputs == GRAPH.output_types
    assert program.kernels[0].grid == ("min(900, 1000)", 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no program: expected JSON, found none that can be read"),
        ("{}", "is no program: expected inputs, found none; add it"),
        ("[1, 2]", "is no program"),
        ('{"format": "kernelwright.program/9"}', "is no program: expected format to be"),
    ],
)
def test_a_bad_program_file_is_told_in_one_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_program(path)
    assert "\n" not in str(caught.value)


def test_a_program_cannot_bring_its_own_tests(tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    text = bases()["softmax"].program.model_dump_json()
    path.write_text(text[:-1] + ', "expected": [1.0]}')
    with pytest.raises(InputError, match="expected is nothing that is known here; leave it out"):
        read_program(path)


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*absent\.json"):
        read_program(tmp_path / "absent.json")
    (tmp_path / "image.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no text"):
        read_program(tmp_path / "image.json")


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (LaunchText(grid="1,2,3,4"), "one to three sizes"),
        (LaunchText(grid="rows"), "expected a launch of numbers and of the arrays' sizes"),
        (LaunchText(grid="4", inputs=("a", "b")), "the task has 1 input, found 2 names"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(
    tmp_path: Path, launch: LaunchText, message: str
) -> None:
    path = tmp_path / "k.metal"
    path.write_text("out[0] = 1;")
    with pytest.raises(InputError, match=message):
        read_body(path, GRAPH, launch)


def test_a_body_takes_template_arguments_and_a_header(tmp_path: Path) -> None:
    path = tmp_path / "scaled.metal"
    path.write_text("y[thread_position_in_grid.x] = T(twice(x[thread_position_in_grid.x]) * N);")
    launch = LaunchText(
        grid="900",
        inputs=("x",),
        outputs=("y",),
        template="T=float, N=4, FLAG = true, ROWS=3*2",
        header="inline float twice(float x) { return 2 * x; }",
    )
    kernel = read_body(path, GRAPH, launch).kernels[0]
    assert kernel.template == {"T": Dtype.FLOAT32, "N": 4, "FLAG": True, "ROWS": "3*2"}
    assert kernel.header.startswith("inline float twice")


@pytest.mark.parametrize("template", ["T", "=f16", "T="])
def test_bad_template_arguments_are_told_in_one_sentence(tmp_path: Path, template: str) -> None:
    path = tmp_path / "body.metal"
    path.write_text("y[0] = x[0];")
    launch = LaunchText(grid="1", inputs=("x",), outputs=("y",), template=template)
    with pytest.raises(InputError, match=r"expected template arguments such as T=f16,N=4; found"):
        read_body(path, GRAPH, launch)


def _body(launch: LaunchText, source: str = "y[0] = x[0];") -> Program:
    return program_of_body(source, "mine", GRAPH, launch)


def test_a_launch_names_the_sizes_of_arrays_as_mlx_kernels_do() -> None:
    launch = LaunchText(
        grid="x_shape[0], ceildiv(x_shape[ 1 ], 32)*32,y_ndim",
        threadgroup="min(x_size,64)",
        inputs=("x",),
        outputs=("y",),
    )
    (kernel,) = _body(launch).kernels
    rows, columns = GRAPH.input_types[0].shape
    assert kernel.grid == (rows, f"ceildiv({columns}, 32)*32", 2)
    assert kernel.threadgroup == (f"min({rows * columns},64)", 1, 1)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"grid": "a_shape[0]"}, r"found 'a_shape\[0\]' in 'a_shape\[0\]'"),
        ({"grid": "rows"}, r"numbers and of the arrays' sizes \(x_shape\[0\], x_shape\[1\]"),
        ({"grid": "x_shape[7]"}, r"found 'x_shape\[7\]'"),
        ({"inputs": ("a b",)}, "to be a name of at most 64 letters, digits and underscores"),
        ({"inputs": ("x", "z")}, "the task has 1 input, found 2 names"),
        ({"template": "T=f99"}, "expected the template argument T as a dtype such as f16"),
    ],
)
def test_a_launch_that_does_not_fit_is_told_in_the_users_words(
    launch: dict[str, object], message: str
) -> None:
    given = LaunchText.model_validate({"grid": "64", "inputs": ("x",), "outputs": ("y",), **launch})
    with pytest.raises(InputError, match=message) as caught:
        _body(given)
    assert "pattern" not in str(caught.value)


def test_an_empty_body_is_no_kernel() -> None:
    with pytest.raises(InputError, match="expected a kernel's Metal body, found an empty text"):
        _body(LaunchText(grid="64"), " \n")
