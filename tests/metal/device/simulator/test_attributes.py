"""Every compute attribute tells a thread what Metal's specification says, at ragged edges too."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.diagnostic import LaunchError

# A row of three words for each attribute; those of one component fill the first.
_VECTORS = (
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "threadgroups_per_grid",
    "grid_origin",
)
_SCALARS = (
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
)
_NAMES = (*_VECTORS, *_SCALARS)


def _text(vector: str, scalar: str, waits: str = "") -> str:
    parameters = [f"{vector} v{i} [[{name}]]" for i, name in enumerate(_VECTORS)]
    parameters += [f"{scalar} s{i} [[{name}]]" for i, name in enumerate(_SCALARS)]
    rows = [f"out[at + {i}] = uint3(v{i});" for i in range(len(_VECTORS))]
    rows += [
        f"out[at + {i + len(_VECTORS)}] = uint3(uint(s{i}), 0, 0);" for i in range(len(_SCALARS))
    ]
    return (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        f"kernel void k(device packed_uint3* out [[buffer(0)]], {', '.join(parameters)}) {{\n"
        f"  uint at = ((uint(v0.z) * v3.y + v0.y) * v3.x + v0.x) * {len(_NAMES)};\n"
        f"  {waits} {' '.join(rows)}\n}}\n"
    )


def _expected(
    grid: tuple[int, int, int], threadgroup: tuple[int, int, int]
) -> dict[str, NDArray[np.int64]]:
    """Compute each attribute of every thread, the grid's x fastest."""
    z, y, x = np.indices(tuple(reversed(grid))).reshape(3, -1)
    at, whole = np.stack([x, y, z], -1), np.array(threadgroup)
    group = at // whole
    size, local = np.minimum(np.array(grid) - group * whole, whole), at % whole
    index = (local[:, 2] * size[:, 1] + local[:, 1]) * size[:, 0] + local[:, 0]
    simdgroups = -(-whole.prod() // 32)
    return {
        "thread_position_in_grid": at,
        "thread_position_in_threadgroup": local,
        "threadgroup_position_in_grid": group,
        "threads_per_grid": np.broadcast_to(grid, at.shape),
        "threads_per_threadgroup": size,
        "dispatch_threads_per_threadgroup": np.broadcast_to(whole, at.shape),
        "threadgroups_per_grid": np.broadcast_to(-(-np.array(grid) // whole), at.shape),
        "grid_origin": np.zeros_like(at),
        "thread_index_in_threadgroup": index,
        "thread_index_in_simdgroup": index % 32,
        "simdgroup_index_in_threadgroup": index // 32,
        "simdgroups_per_threadgroup": -(-size.prod(-1) // 32),
        "dispatch_simdgroups_per_threadgroup": np.full_like(index, simdgroups),
        "thread_index_in_quadgroup": index % 4,
        "quadgroup_index_in_threadgroup": index // 4,
        "quadgroups_per_threadgroup": -(-size.prod(-1) // 4),
        "dispatch_quadgroups_per_threadgroup": np.full_like(index, -(-whole.prod() // 4)),
        "threads_per_simdgroup": np.full_like(index, 32),
        "thread_execution_width": np.full_like(index, 32),
    }


@pytest.mark.parametrize("waits", ["", "simdgroup_barrier(mem_flags::mem_none);"])
@pytest.mark.parametrize(
    ("vector", "scalar"), [("const uint3", "const uint"), ("ushort3", "ushort")]
)
def test_attributes_are_metal_s(
    vector: str, scalar: str, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    kernel = simulator.compile(_text(vector, scalar, waits)).kernel("k")
    for grid, threadgroup in (
        ((70, 3, 2), (32, 2, 2)),
        ((7, 5, 3), (4, 2, 2)),
        ((1000, 1, 1), (192, 1, 1)),
    ):
        out = np.zeros((int(np.prod(grid)), len(_NAMES), 3), np.uint32)

        kernel.launch([out], grid=grid, threadgroup=threadgroup)

        expected = _expected(grid, threadgroup)
        for row, name in enumerate(_NAMES):
            found = out[:, row] if name in _VECTORS else out[:, row, 0]
            np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_logging_and_fences_compile_to_nothing_that_is_seen() -> None:
    text = """#include <metal_stdlib>
#include <metal_logging>
using namespace metal;
constant os_log events("org.example", "kernels");
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  os_log_default.log_info("thread %u holds %f", i, y[i]);
  events.log_error("step %d", 3);
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  y[i] += 1;
}
"""
    y = np.arange(4, dtype=np.float32)

    simulator.compile(text).kernel("k").launch([y], grid=(4, 1, 1), threadgroup=(4, 1, 1))

    np.testing.assert_array_equal(y, [1, 2, 3, 4])


def test_threadgroup_memory_of_variables_and_arguments_together_is_limited() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* y [[buffer(0)]], threadgroup float* more [[threadgroup(0)]],
              uint i [[thread_position_in_grid]]) {
  threadgroup float own[4096];
  own[i] = more[i] = y[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = own[i ^ 1] + more[i ^ 1];
}
"""
    kernel, y = simulator.compile(text).kernel("k"), np.ones(32, np.float32)

    def launch(size: int) -> None:
        kernel.launch([y], grid=(32, 1, 1), threadgroup=(32, 1, 1), threadgroup_bytes={0: size})

    launch(16384)
    np.testing.assert_array_equal(y, 2)

    with pytest.raises(LaunchError, match="needs 32784 bytes, this device has 32768"):
        launch(16400)
