"""The text that MLX generates, and what each of its buffers holds."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor
from kernelwright.metal.render import Rendered, kernel_name, render

GOLDEN = Path(__file__).parents[1] / "golden" / "render"

ELEMENTWISE = """// x_ndim in a comment changes nothing
uint i = thread_position_in_grid.x;
y[i] = x[i] * scale; /* thread_index_in_simdgroup */
"""
DESCRIBED = """uint i = thread_position_in_grid.x;
auto at = elem_to_loc(i, x_shape, x_strides, x_ndim);
sums[i] = T(x[at]) + T(w[i % 4]) * F;
counts[i] = N;
"""


def bound(
    source: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
    *,
    header: str = "",
    template: dict[str, Dtype | bool | int | str] | None = None,
) -> BoundProgram:
    types = {n: TensorType.parse(t) for n, t in {**inputs, **outputs}.items()}
    tensors = {n: Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in types.items()}
    kernel = Kernel(
        name="made",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        source=source,
        header=header,
        template=template or {},
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        ensure_row_contiguous=False,
    )
    program = Program(
        inputs=tuple(tensors[n] for n in inputs),
        outputs=tuple(tensors[n] for n in outputs),
        kernels=(kernel,),
    )
    return program.bind([types[n] for n in inputs])


CASES = {
    "elementwise": bound(
        ELEMENTWISE, {"x": "f32[64]", "scale": "f32[]"}, {"y": "f16[64]"}, header="// no line end"
    ),
    "described": bound(
        DESCRIBED,
        {"x": "bf16[8,8]", "w": "i32[4]"},
        {"sums": "f32[64]", "counts": "u8[64]"},
        header="struct Unused { int a; };",
        template={"T": Dtype.FLOAT32, "N": 8, "F": True},
    ),
}


def rendered(case: str) -> Rendered:
    return render(CASES[case].launches[0], CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_what_mlx_generates(case: str, pytestconfig: pytest.Config) -> None:
    path = GOLDEN / f"{case}.metal"
    if pytestconfig.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(rendered(case).text)
    assert rendered(case).text == path.read_text()


def test_every_buffer_says_what_it_holds() -> None:
    assert [(b.array, b.role, b.parameter.space) for b in rendered("described").buffers] == [
        ("x", "data", "device"),
        ("x", "shape", "constant"),
        ("x", "strides", "constant"),
        ("x", "ndim", "constant"),
        ("w", "data", "constant"),
        ("sums", "data", "device"),
        ("counts", "data", "device"),
    ]
    assert [b.array for b in rendered("elementwise").buffers] == ["x", "scale", "y"]


def test_the_parts_begin_where_the_candidates_texts_do() -> None:
    parts = rendered("elementwise")
    assert parts.header == "              \n"
    lines = parts.source.split("\n")
    assert lines[1] == "uint i = thread_position_in_grid.x;"
    assert lines[2].startswith("y[i] = x[i] * scale; ")
    assert parts.signature.endswith(") {\n")


def test_kernels_of_different_text_never_share_a_name() -> None:
    kernel = CASES["elementwise"].launches[0].kernel
    others = [
        kernel.model_copy(update=change)
        for change in (
            {"source": kernel.source + " "},
            {"header": "int a;"},
            {"math_mode": "fast"},
            {"atomic_outputs": True},
        )
    ]
    assert len({kernel_name(k) for k in (kernel, *others)}) == 5
    assert kernel_name(kernel) in rendered("elementwise").name


def test_what_mlx_refuses_is_one_sentence() -> None:
    program = bound("y[0] = 1;", {"x": "f32[4]"}, {"y": "f64[4]"})
    with pytest.raises(InputError, match="MLX refuses the kernel 'made'"):
        render(program.launches[0], program)
