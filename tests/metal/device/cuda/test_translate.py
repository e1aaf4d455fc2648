"""A launch becomes one CUDA source that NVIDIA's compiler accepts, with the candidate's lines."""

from pathlib import Path

import pytest

from kernelwright.ir import canonicalize, capture, gather_attention
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.cuda import nvrtc
from kernelwright.metal.device.cuda.build import compile_launches
from kernelwright.metal.device.cuda.device import most_threadgroup_bytes
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


@needs_nvrtc
@pytest.mark.parametrize(
    "source",
    [
        "y[0] = a[elem_to_loc(thread_position_in_grid.x, a_shape, a_strides, a_ndim)];",
        (
            "simdgroup_half8x8 l, r; simdgroup_load(l, a, 8); simdgroup_load(r, b, 8);"
            "simdgroup_half8x8 p = l * r; simdgroup_store(p, y, 8);"
        ),
    ],
)
def test_what_mlx_and_metal_give_by_themselves_compiles(source: str) -> None:
    program = bound(source, squares_of(64), tensor("y", Dtype.FLOAT16, 64))
    translation = translate(program, program.launches[0])
    assert nvrtc.compile_cuda(translation.text, headers(), architecture="sm_90")


def test_packed_access_learns_once_what_is_aligned() -> None:
    source = "((device packed_half4*)y)[0] = ((const device packed_half4*)a)[0];"
    program = bound(source, squares_of(8), tensor("y", Dtype.FLOAT16, 8))
    text = translate(program, program.launches[0]).text
    assert "if (kw_is_aligned(a) && kw_is_aligned(b) && kw_is_aligned(y))" in text
    assert "candidate::body(kw_aligned(a), kw_aligned(b), kw_aligned(y));" in text
    assert "candidate::body(a, b, y);" in text


def test_an_array_of_a_few_bytes_keeps_no_other_from_being_aligned() -> None:
    source = "((device packed_half4*)y)[0] = ((const device packed_half4*)a)[0] * b[0];"
    few = tensor("b", Dtype.FLOAT16, 4)
    program = bound(source, [tensor("a", Dtype.FLOAT16, 8), few], tensor("y", Dtype.FLOAT16, 8))
    text = translate(program, program.launches[0]).text
    assert "if (kw_is_aligned(a) && kw_is_aligned(y))" in text
    assert "candidate::body(kw_aligned(a), b, kw_aligned(y));" in text


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


@needs_nvrtc
def test_the_compiler_says_what_a_kernel_takes_of_a_core() -> None:
    program = bound(MATRIX, squares_of(64), tensor("y", Dtype.FLOAT32, 64))
    text = translate(program, program.launches[0]).text
    binary = nvrtc.compile_cuda(text, headers(), architecture="sm_90")
    assert 8 <= binary.registers <= 255
    assert binary.spilled_bytes == 0


CROWDED = """\
simdgroup_matrix<half, 8, 8> left[4], right;
simdgroup_float8x8 sums[4][16];
for (uint m = 0; m < 4; m++) {
  for (uint n = 0; n < 16; n++) sums[m][n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}
for (uint i = 0; i < uint(a[0]); i++) {
  for (uint m = 0; m < 4; m++) simdgroup_load(left[m], a + 8 * i + m);
  #pragma unroll
  for (uint n = 0; n < 16; n++) {
    simdgroup_load(right, b + 8 * (i + n));
    for (uint m = 0; m < 4; m++) {
      simdgroup_multiply_accumulate(sums[m][n], left[m], right, sums[m][n]);
    }
  }
}
for (uint m = 0; m < 4; m++) {
  for (uint n = 0; n < 16; n++) simdgroup_store(sums[m][n], y + 64 * (16 * m + n));
}
"""
"""Its sums alone take 128 registers of a thread."""


@needs_nvrtc
def test_registers_that_a_kernel_needs_are_not_taken_from_it() -> None:
    program = bound(CROWDED, squares_of(4096), tensor("y", Dtype.FLOAT32, 4096))
    (launch,) = compile_launches(program, "sm_90")
    texts = (translate(program, program.launches[0]).text, launch.translation.text)
    plain, found = (nvrtc.compile_cuda(t, headers(), architecture="sm_90") for t in texts)
    assert plain.registers > 128
    assert found.spilled_bytes <= plain.spilled_bytes


LARGE = """\
constexpr int N = 10000;
threadgroup half held[N], small[3], one;
threadgroup float4 tile[N / 4][2];
threadgroup atomic_uint seen;
uint i = thread_index_in_threadgroup;
if (i == 0) {
  threadgroup float inner[4];
  inner[0] = 2.0;
  one = inner[0];
  atomic_store_explicit(&seen, 0u, memory_order_relaxed);
}
threadgroup float* p = &tile[0][0].x;
for (uint j = i; j < N; j += 64) { held[j] = half(j); p[j] = a[i]; }
small[i % 3] = 1.0h;
threadgroup_barrier(mem_flags::mem_threadgroup);
tile[1][0].xy = float2(3);
atomic_fetch_add_explicit(&seen, 1u, memory_order_relaxed);
y[thread_position_in_grid.x] = p[N - 1 - i] + float(held[i] + small[0] + one) + tile[i][1].y;
"""
"""Its arrays take 100022 bytes."""


def large(source: str = LARGE) -> BoundProgram:
    return bound(source, squares_of(320), tensor("y", Dtype.FLOAT32, 320))


def test_gathered_arrays_are_allocated_at_launch() -> None:
    program = large()
    translation = translate(program, program.launches[0], shared_bytes=100000)
    assert translation.shared_bytes == 100000 + 4 * 32
    assert "extern __shared__ __align__(32) unsigned char kw_shared[];" in translation.text
    assert translation.text.count("__shared__") == 2


@needs_nvrtc
def test_arrays_of_more_than_48_kb_compile_under_a_lifted_limit() -> None:
    (launch,) = compile_launches(large(), "sm_90", 131072)
    assert 100022 <= launch.translation.shared_bytes < 100022 + 5 * 32
    assert launch.cubin[:4] == b"\x7fELF"


@needs_nvrtc
def test_arrays_of_up_to_48_kb_stay_where_they_are_under_a_lifted_limit() -> None:
    (launch,) = compile_launches(large(LARGE.replace("10000", "4000")), "sm_90", 131072)
    assert launch.translation.shared_bytes == 0


@needs_nvrtc
@pytest.mark.parametrize(
    ("source", "limit", "words"),
    [
        (LARGE, 65536, r"\(100022\) exceeds the maximum threadgroup memory allowed \(65536\)"),
        (LARGE, 32768, r"\(100022\) exceeds the maximum threadgroup memory allowed \(32768\)"),
        (
            "{ threadgroup float t[20000]; t[int(a[0])] = a[1]; y[0] = t[int(a[2])]; }",
            131072,
            "inner blocks, .* take 80000 bytes, CUDA has 49152 for them; declare them at the top",
        ),
    ],
)
def test_arrays_beyond_a_limit_are_one_sentence(source: str, limit: int, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        compile_launches(large(source), "sm_90", limit)


def test_the_assemblers_refusal_tells_how_much_the_arrays_take() -> None:
    said = (
        'source(3): warning #177-D: variable "n" was declared but never referenced\n'
        "ptxas error   : Entry function 'kw_kernel' uses too much shared data "
        "(0x13881 bytes, 0xc000 max)"
    )
    assert nvrtc.excess_shared_bytes(CompileError(nvrtc.diagnostics(said))) == 80001
    assert nvrtc.excess_shared_bytes(CompileError((Diagnostic(message="no"),))) is None


@pytest.mark.parametrize(
    ("architecture", "kilobytes"), [("sm_90", 227), ("sm_90a", 227), ("sm_80", 163), ("sm_120", 99)]
)
def test_an_architecture_has_its_own_most(architecture: str, kilobytes: int) -> None:
    assert most_threadgroup_bytes(architecture) == kilobytes * 1024


PAIRED = """\
template <typename T> struct two {
  T values[2];
  thread T& operator[](uint i) { return values[i]; } };
template <typename T> struct six {
  T values[6];
  thread T& operator[](uint i) { return values[i]; } };
"""


def test_structs_may_have_members_of_the_same_text() -> None:
    program = bound("two<half> p; p[0] = a[0]; six<half> q; q[1] = p[0]; y[0] = q[1];",
                    squares_of(64), tensor("y", Dtype.FLOAT16, 64), header=PAIRED)  # fmt: skip
    assert translate(program, program.launches[0]).text.count("operator[]") == 2
