"""Texts of floats become texts of halves that read floats and round once."""

import pytest

from kernelwright.evaluator.attacks.cast_text import cast_text
from kernelwright.ir.graph.dtype import Dtype


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float v = x[i];", "float v = float(x[i]);"),
        ("y[i] = x[i] + 1;", "y[i] = half((float(x[i]) + 1));"),
        (
            "y[p[x[i] > 0]] += s;",
            "y[p[float(x[i]) > 0]] = half(float(y[p[float(x[i]) > 0]]) + (s));",
        ),
        ("if (x[i] == y[i]) return;", "if (float(x[i]) == float(y[i])) return;"),
        ("auto p = &x[i]; max[i] = 1;", "auto p = &x[i]; max[i] = 1;"),
    ],
)
def test_reads_and_stores_are_cast(text: str, expected: str) -> None:
    assert cast_text(text, ["x", "y"], Dtype.FLOAT16) == expected
