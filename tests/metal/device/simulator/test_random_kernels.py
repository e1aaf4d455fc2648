"""Kernels in many styles compile, run on fibers, in lanes and sanitized, and agree with NumPy."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from tests.metal.device.simulator.random_kernel import write
from tests.metal.device.simulator.random_step import THREADS

_TOGETHER = 10
_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 60))]
)
def test_they_compute_what_their_reference_says(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = [write(f"k{n}", 100 * first + n) for n in range(_TOGETHER)]
    library = simulator.compile(_HEAD + "".join(k.text for k in kernels))
    monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", _TOGETHER)
    x = np.random.default_rng(first).integers(0, 2**32, 4 * THREADS, dtype=np.uint32)
    x[::5] %= 16
    for kernel in kernels:
        expected = kernel.run(x)
        for threshold, sanitize in ((1 << 40, False), (1, False), (1 << 40, True), (1, True)):
            monkeypatch.setattr(compiler, "WIDE_THREADS", threshold)
            monkeypatch.setattr(compiler, "VETTED_THREADS", threshold)
            y = np.zeros_like(x)
            outcome = library.kernel(kernel.name).launch(
                [x, y],
                grid=(THREADS, 1, 1),
                threadgroup=(THREADS, 1, 1),
                fresh=["y"],
                sanitize=sanitize,
            )
            assert outcome.reports == (), kernel.text
            np.testing.assert_array_equal(y, expected, kernel.text)
