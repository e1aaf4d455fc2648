"""A vector that clang loads element by element is counted as the one access that it is."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator

_TEXT = """
#include <metal_stdlib>
using namespace metal;
kernel void walks(const device half* x [[buffer(0)]], device float* y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {{
  float values[32], total = 0;
  #pragma clang loop unroll(full)
  for (uint k = 0; k < 32; k += {step}) {{
    {body}
  }}
  for (uint k = 0; k < 32; k++) total += values[k] * values[k ^ 1];
  y[i] = total;
}}
"""
_BODIES = {
    "vectors": (
        4,
        """auto run = *(const device packed_half4*)(x + i * 32 + k);
           for (uint j = 0; j < 4; j++) values[k + j] = run[j];""",
    ),
    "scalars": (1, "values[k] = x[i * 32 + k];"),
}


# Two accesses of 16 bytes, and beyond 32 bytes each by itself: 4 vectors or 16 scalars.
@pytest.mark.parametrize(("kind", "reads"), [("vectors", 6), ("scalars", 18)])
def test_reads_along_a_row_are_the_texts(kind: str, reads: int) -> None:
    step, body = _BODIES[kind]
    x = np.ones((32, 32), np.float16)
    kernel = simulator.compile(_TEXT.format(step=step, body=body)).kernel("walks")

    outcome = kernel.launch(
        [x, np.zeros(32, np.float32)], grid=(32, 1, 1), threadgroup=(32, 1, 1), count=True
    )

    assert outcome.counters is not None
    found = outcome.counters.buffers[0]
    assert (found.reads, found.bytes_read) == (reads, x.nbytes)
