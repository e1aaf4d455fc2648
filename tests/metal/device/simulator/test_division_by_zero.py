"""An integer that is divided by zero gives zero, also where the compiler sees the divisor."""

import numpy as np
import pytest

from kernelwright.metal import simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n#define ZERO 0\n"
_HEAD += "template <int N> int over(int x) { return x / N; }\nconstant constexpr int zero = 0;\n"


@pytest.mark.parametrize("build", ["plain", "sanitize", "count", "ordered"])
@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "5 % 0", "int(i) / 0", "int(i) / ZERO", "7 / (3 - 3)", "9 % zero", "(1 / 0) % 0"],
)
@pytest.mark.sampled(12)
def test_a_constant_divisor_of_zero_gives_zero(expression: str, build: str) -> None:
    text = "kernel void k(device int* o, uint i [[thread_position_in_grid]]) {"
    o = np.full(64, 77, np.int32)
    library = simulator.compile(f"{_HEAD}{text} o[i] = {expression}; }}\n")
    outcome = library.kernel("k").launch(
        [o],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        sanitize=build == "sanitize",
        count=build == "count",
        order_seed=5 if build == "ordered" else 0,
    )
    assert (o == 0).all()
    kinds = {r.kind for r in outcome.reports}
    assert kinds == ({"integer division by zero"} if build == "sanitize" else set())
