"""Kernels run on NumPy arrays, given by name, by index or in order."""

from typing import get_args

import ml_dtypes
import numpy as np
import pytest

from kernelwright import metal
from kernelwright.metal.device.simulator.library import Argument, Library, SimulatedKernel
from kernelwright.metal.device.simulator.toolchain import Variant

TEXT = """
#include <metal_stdlib>
using namespace metal;
struct Size { uint rows; float scale; };
constant bool negate [[function_constant(3)]];
constant float offset [[function_constant(4)]];
constant bool shifts = is_function_constant_defined(offset) ? offset != 0 : false;

kernel void scale(device const float* x [[buffer(0)]], device float* y [[buffer(2)]],
                  constant float& a [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = (negate ? -a : a) * x[i] + (shifts ? offset : 0.0);
}
kernel void rows(constant Size& size [[buffer(0)]], device half* y [[buffer(1)]],
                 uint2 at [[thread_position_in_grid]]) {
  y[at.y * size.rows + at.x] = size.scale * at.y;
}
kernel void reversed(device int* y [[buffer(0)]], threadgroup int* t [[threadgroup(0)]],
                     uint i [[thread_index_in_threadgroup]],
                     uint n [[threads_per_threadgroup]]) {
  t[i] = y[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = t[n - 1 - i];
}
kernel void optional(device int* y [[buffer(0)]],
                     constant int& b [[buffer(1), function_constant(negate)]]) {
  y[0] = negate ? b : 7;
}
kernel void narrow(device bfloat* y [[buffer(0)]], constant bfloat& v, constant bool& c) {
  y[0] = c ? v : bfloat(0.0);
}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return metal.simulator.compile(TEXT)


_SWAP = """#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              device float* z [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  float t = z[i];
  if (x[i] > 0) { t = y[i]; y[i] = 1; }
  z[i] = t;
  y[i] += 0.5f;
}
"""


def test_a_conditional_load_is_not_put_below_the_store_that_follows() -> None:
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    y, z = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)

    metal.simulator.compile(_SWAP).kernel("k").launch(
        [x, y, z], grid=(1024, 1, 1), threadgroup=(256, 1, 1)
    )

    np.testing.assert_array_equal(z, np.where(x > 0, np.arange(1024), 0))
    np.testing.assert_array_equal(y, np.where(x > 0, 1, np.arange(1024)) + 0.5)


def test_arrays_are_written_in_place(library: Library) -> None:
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    library.kernel("scale", {"negate": False}).launch(
        [x, y, 2.0], grid=(100, 1, 1), threadgroup=(32, 1, 1)
    )
    np.testing.assert_array_equal(y, 2 * x)


def test_buffers_may_be_given_by_index_and_by_name(library: Library) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    buffers: dict[int | str, Argument] = {0: x, "y": y, 1: np.float32(3)}
    library.kernel("scale", {"negate": False}).launch(
        buffers, grid=(4, 1, 1), threadgroup=(4, 1, 1)
    )
    assert y.tolist() == [3] * 4


def test_a_struct_is_passed_as_bytes(library: Library) -> None:
    y = np.zeros((3, 5), np.float16)
    size = np.array([(5, 0.5)], [("rows", "u4"), ("scale", "f4")]).tobytes()
    library.kernel("rows").launch([size, y], grid=(5, 3, 1), threadgroup=(4, 2, 1))
    assert y[:, 4].tolist() == [0, 0.5, 1]


def test_threadgroup_memory_has_the_size_that_is_asked_for(library: Library) -> None:
    y = np.arange(8, dtype=np.int32)
    kernel = library.kernel("reversed")
    kernel.launch([y], grid=(8, 1, 1), threadgroup=(8, 1, 1), threadgroup_bytes={"t": 32})
    assert y.tolist() == list(range(8))[::-1]


def test_function_constants_specialise_a_kernel(library: Library) -> None:
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    plain, negated, shifted = (
        library.kernel("scale", {"negate": False}),
        library.kernel("scale", {"negate": True}),
        library.kernel("scale", {3: 1, "offset": 0.5}),
    )
    for kernel, expected in ((plain, 2), (negated, -2), (shifted, -1.5), (plain, 2)):
        kernel.launch([x, y, 2.0], grid=(2, 1, 1), threadgroup=(2, 1, 1))
        assert y.tolist() == [expected] * 2


def test_a_function_constant_switches_a_buffer_off(library: Library) -> None:
    y = np.zeros(1, np.int32)
    library.kernel("optional", {"negate": False}).launch([y], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y[0] == 7
    with_b = library.kernel("optional", {"negate": True})
    with_b.launch([y, 9], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y[0] == 9


@pytest.mark.parametrize("form", ["by name", "in order"])
def test_a_computed_constant_switches_a_buffer(form: str) -> None:
    library = metal.simulator.compile("""
        #include <metal_stdlib>
        using namespace metal;
        constant int count [[function_constant(0)]];
        constant bool adds = is_function_constant_defined(count) ? count > 2 : false;
        kernel void k(device float* y [[buffer(0)]],
                      device const float* x [[buffer(1), function_constant(adds)]],
                      uint i [[thread_position_in_grid]]) {
          y[i] = 1; if (adds) y[i] += x[i];
        }""")
    for count, expected in ((3, [1.0, 2.0]), (1, [1.0, 1.0])):
        y, x = np.zeros(2, np.float32), np.arange(2, dtype=np.float32)
        given: dict[int | str, Argument] = {"y": y, "x": x} if count > 2 else {"y": y}
        kernel = library.kernel("k", {"count": count})
        kernel.launch(
            given if form == "by name" else list(given.values()),
            grid=(2, 1, 1), threadgroup=(2, 1, 1), sanitize=True,
        )  # fmt: skip
        assert y.tolist() == expected


def test_numbers_take_the_type_of_their_parameter(library: Library) -> None:
    y = np.zeros(1, ml_dtypes.bfloat16)
    library.kernel("narrow").launch([y, 1.5, True], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y[0] == 1.5


def test_sanitizing_and_counting_builds_compute_the_same(library: Library) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = library.kernel("scale", {"negate": False})
    sanitized = kernel.launch(
        [x, y, 2.0], grid=(64, 1, 1), threadgroup=(32, 1, 1), fresh=["y"], sanitize=True
    )
    assert sanitized.reports == ()
    np.testing.assert_array_equal(y, 2 * x)
    counted = kernel.launch([x, y, 2.0], grid=(64, 1, 1), threadgroup=(32, 1, 1), count=True)
    assert counted.counters is not None
    assert [(b.name, b.bytes_read, b.bytes_written) for b in counted.counters.buffers[:2]] == [
        ("x", 256, 0),
        ("y", 0, 256),
    ]


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ([np.ones(4, np.float32)], r"scale takes 3 buffers \(x \(0\), y \(2\), a \(1\)\), found 1"),
        ({"x": np.ones(4, np.float32), 1: 1.0}, r"scale also needs the buffer y\."),
        ({"x": np.ones(4, np.float32)}, r"scale also needs the buffers y, a\."),
        ({"z": 1}, "scale has no buffer 'z'; its buffers are: x"),
        ([np.ones(8, np.float32)[::2], np.ones(4, np.float32), 1.0], "x is not contiguous"),
    ],
)
def test_buffers_that_do_not_fit_are_one_sentence(
    library: Library, buffers: dict[int | str, object] | list[object], message: str
) -> None:
    with pytest.raises(metal.LaunchError, match=message):
        library.kernel("scale", {"negate": False}).launch(
            buffers,  # type: ignore[arg-type]
            grid=(4, 1, 1),
            threadgroup=(4, 1, 1),
        )


def test_a_read_only_array_cannot_be_written(library: Library) -> None:
    y = np.zeros(2, np.float32)
    y.flags.writeable = False
    with pytest.raises(metal.LaunchError, match="writes y, whose array is read-only"):
        library.kernel("scale", {"negate": False}).launch(
            [y, y, 1.0], grid=(2, 1, 1), threadgroup=(2, 1, 1)
        )


def test_a_struct_needs_bytes(library: Library) -> None:
    y = np.zeros(4, np.float16)
    with pytest.raises(metal.LaunchError, match="size is of type Size; pass a NumPy scalar"):
        library.kernel("rows").launch([3, y], grid=(2, 2, 1), threadgroup=(2, 2, 1))


def test_threadgroup_memory_without_a_size_is_one_sentence(library: Library) -> None:
    with pytest.raises(metal.LaunchError, match=r"threadgroup argument t \(0\)"):
        library.kernel("reversed").launch(
            [np.zeros(4, np.int32)], grid=(4, 1, 1), threadgroup=(4, 1, 1)
        )


@pytest.mark.parametrize("variant", get_args(Variant))
def test_every_build_refuses_what_the_plain_one_does(variant: Variant) -> None:
    text = """#include <metal_stdlib>
    using namespace metal;
    kernel void k(device float* y [[buffer(0)]]) { float4 v = 1; thread float* p = &v.x; *y = *p; }
    """
    with pytest.raises(metal.CompileError, match="address of vector element requested"):
        metal.simulator.compile(text, variant=variant)


def test_launches_of_one_kernel_share_no_argument() -> None:
    """What a kernel keeps for its next launch holds for the same arguments alone."""
    text = """#include <metal_stdlib>
    using namespace metal;
    kernel void k(device uint* y [[buffer(0)]], device atomic_uint* n [[buffer(1)]],
                  threadgroup uint* t [[threadgroup(0)]], uint i [[thread_position_in_grid]],
                  uint size [[threads_per_threadgroup]], uint all [[threads_per_grid]]) {
      t[i % size] = size + 100 * all;
      y[atomic_fetch_add_explicit(n, 1, memory_order_relaxed)] = i;
      if (i == 0) y[all] = t[0];
    }"""
    kept = metal.simulator.compile(text).kernel("k")

    def ran(kernel: SimulatedKernel, grid: int, size: int, bytes_: int, seed: int) -> list[int]:
        y, n = np.zeros(grid + 1, np.uint32), np.zeros(1, np.uint32)
        kernel.launch(
            [y, n],
            grid=(grid, 1, 1),
            threadgroup=(size, 1, 1),
            threadgroup_bytes={0: bytes_},
            order_seed=seed,
        )
        return y.tolist()

    for arguments in [(64, 32, 128, 0), (64, 32, 128, 5), (32, 32, 128, 5), (64, 16, 128, 5)] * 2:
        assert ran(kept, *arguments) == ran(metal.simulator.compile(text).kernel("k"), *arguments)
    with pytest.raises(metal.LaunchError, match="needs 40000 bytes"):
        ran(kept, 64, 32, 40000, 0)
    y, n = np.zeros(65, np.uint32), np.zeros(1, np.uint32)
    with pytest.raises(metal.LaunchError, match="sanitize is expected to be True or False"):
        kept.launch([y, n], grid=(64, 1, 1), threadgroup=(32, 1, 1), sanitize=0)  # type: ignore[arg-type]
    outcome = kept.launch(
        [y, n], grid=(64, 1, 1), threadgroup=(32, 1, 1), threadgroup_bytes={0: 128}, count=True
    )
    assert outcome.counters is not None


def test_unknown_kernels_and_constants_are_named(library: Library) -> None:
    with pytest.raises(metal.LaunchError, match="no kernel 'foo'; the kernels are: scale"):
        library.kernel("foo")
    with pytest.raises(metal.LaunchError, match=r"no function constant 'x'; .*negate \(3\)"):
        library.kernel("scale", {"x": 1})


def test_library_is_shown_by_its_kernels_names() -> None:
    library = metal.simulator.compile("kernel void a(device float* x) {} kernel void b() {}")
    assert repr(library) == "Library(kernels=a, b)"
