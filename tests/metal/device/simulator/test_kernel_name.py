"""A kernel may have the name of anything in namespace metal."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator

_NAMES = (
    *("transpose", "normalize", "cross", "select", "mad24", "max", "simd_sum"),
    *("decay", "rank", "extent", "uniform", "array", "vec", "matrix", "atomic", "sampler"),
    *("is_same", "enable_if"),
)
_KERNEL = """kernel void {name}(const device float4* x, device float4* y,
                   uint i [[thread_position_in_grid]]) {{ y[i] = x[i]; }}
"""


@pytest.mark.parametrize("around", ["{}", "namespace own {{ {} }}"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_a_kernel_may_be_called_as_something_of_the_standard_library(
    around: str, sanitize: bool
) -> None:
    kernels = "".join(_KERNEL.format(name=name) for name in _NAMES)
    text = f"#include <metal_stdlib>\nusing namespace metal;\n{around.format(kernels)}"
    library = simulator.compile(text)
    x = np.arange(16, dtype=np.float32)
    for name in _NAMES:
        y = np.zeros(16, np.float32)
        kernel, size = library.kernel(name), (4, 1, 1)
        outcome = kernel.launch([x, y], grid=size, threadgroup=size, sanitize=sanitize)
        assert not outcome.reports
        assert np.array_equal(x, y)
