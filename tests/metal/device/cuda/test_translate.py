"""A launch becomes one CUDA source that NVIDIA's compiler accepts, with the candidate's lines."""

from pathlib import Path

import pytest

from kernelwright.ir import canonicalize, capture, gather_attention
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.cuda import nvrtc
from kernelwright.metal.device.cuda.translate import headers, translate
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse
from tests.metal.lower.test_golden import CASES

GOLDEN = Path(__file__).parents[3] / "golden" / "cuda"
needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_available(), reason="NVRTC is not installed; pip install 'mlx[cuda13]'"
)

SUM_OF_SQUARES = """\
uint row = threadgroup_position_in_grid.x;
uint columns = x_shape[1];
threadgroup float partial[32];
float sum = 0.0;
for (uint c = thread_index_in_threadgroup; c < columns; c += 64) {
  float v = float(x[row * columns + c]);
  sum += v * v * scale;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index_in_threadgroup == 0) y[row] = T(partial[0] + partial[1]);
"""
MATRIX = """\
simdgroup_matrix<half, 8, 8> left, right;
simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
simdgroup_load(left, a, 8);
simdgroup_load(right, b, 8, ulong2(0, 0), true);
simdgroup_multiply_accumulate(sum, left, right, sum);
simdgroup_store(sum, y, 8);
"""
VECTORS = """\
uint i = thread_position_in_grid.x;
float4 v = float4(a[i], b[i], 1.0, 2.0);
half2 h = half2(v.xy);
h.yx = h + 1.0h;
bool2 positive = h > 0;
v.zw = float2(h) * exp(v.wz);
y[i] = dot(v, v) + select(v.x, v.y, any(positive)) + clamp(v.z, 0.0f, 1.0f) + float(clz(i));
"""


def tensor(name: str, dtype: Dtype, *shape: int) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape)


def bound(source: str, inputs: list[Tensor], output: Tensor, **fields: object) -> BoundProgram:
    kernel = Kernel.model_validate(
        {
            "name": "k",
            "inputs": [t.name for t in inputs],
            "outputs": [output.name],
            "source": source,
            "grid": (320, 1, 1),
            "threadgroup": (64, 1, 1),
        }
        | fields
    )
    program = Program(inputs=tuple(inputs), outputs=(output,), kernels=(kernel,))
    return program.bind([TensorType(tuple(map(int, t.shape)), t.dtype) for t in inputs])


def sum_of_squares(source: str = SUM_OF_SQUARES) -> BoundProgram:
    inputs = [tensor("x", Dtype.BFLOAT16, 5, 100), tensor("scale", Dtype.FLOAT32)]
    output = tensor("y", Dtype.BFLOAT16, 5)
    return bound(source, inputs, output, template={"T": "bfloat16", "N": 4, "B": True})


def squares_of(size: int) -> list[Tensor]:
    return [tensor("a", Dtype.FLOAT16, size), tensor("b", Dtype.FLOAT16, size)]


def test_translation_matches_its_golden_text(request: pytest.FixtureRequest) -> None:
    program = sum_of_squares()
    text = translate(program, program.launches[0]).text
    golden = GOLDEN / "sum_of_squares.cu"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_packed_access_learns_once_what_is_aligned() -> None:
    source = "((device packed_half4*)y)[0] = ((const device packed_half4*)a)[0];"
    program = bound(source, squares_of(8), tensor("y", Dtype.FLOAT16, 8))
    text = translate(program, program.launches[0]).text
    assert "if (kw_is_aligned(a) && kw_is_aligned(b) && kw_is_aligned(y))" in text
    assert "candidate::body(kw_aligned(a), kw_aligned(b), kw_aligned(y));" in text
    assert "candidate::body(a, b, y);" in text


def test_blocks_cover_the_grid_in_one_dimension() -> None:
    program = bound(
        VECTORS,
        squares_of(8),
        tensor("y", Dtype.FLOAT32, 8),
        grid=(70, 37, 1),
        threadgroup=(16, 8, 1),
    )
    translation = translate(program, program.launches[0])
    assert translation.blocks == 25
    assert translation.threads == 128
    assert translation.grid == (3200, 1, 1)


@needs_nvrtc
@pytest.mark.parametrize(
    "program",
    [
        sum_of_squares(),
        bound(MATRIX, squares_of(64), tensor("y", Dtype.FLOAT32, 64)),
        bound(VECTORS, squares_of(320), tensor("y", Dtype.FLOAT32, 320)),
        bound(VECTORS, squares_of(320), tensor("y", Dtype.FLOAT32, 320), math_mode="fast"),
    ],
    ids=["reduction", "matrix", "vectors", "fast math"],
)
def test_translation_compiles(program: BoundProgram) -> None:
    translation = translate(program, program.launches[0])
    assert nvrtc.compile_cuda(translation.text, headers(), architecture="sm_90")


@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_kernels_of_every_family_compile(name: str) -> None:
    function, inputs, schedule = CASES[name]
    graph = gather_attention(canonicalize(capture(function, *inputs)))
    program = lower(graph, parse(schedule)).bind(graph.input_types)
    for launch in program.launches:
        text = translate(program, launch).text
        assert nvrtc.compile_cuda(text, headers(), architecture="sm_90")


@needs_nvrtc
def test_compile_error_names_the_candidates_own_line() -> None:
    program = sum_of_squares(SUM_OF_SQUARES.replace("v * v", "v * w"))
    translation = translate(program, program.launches[0])
    with pytest.raises(CompileError, match='source:7:0: error: identifier "w" is undefined'):
        nvrtc.compile_cuda(translation.text, headers(), architecture="sm_90")


def test_log_lines_of_generated_text_carry_no_line() -> None:
    log = 'source(3): error: expected a ";"\nentry(2): error #20: identifier "q" is undefined\n'
    assert nvrtc.diagnostics(log) == (
        Diagnostic(message='expected a ";"', line=3),
        Diagnostic(message='identifier "q" is undefined'),
    )
