"""Random members that are overloaded by address space give what their own text says."""

import numpy as np
import pytest

from kernelwright.metal import simulator
from tests.metal.device.simulator.random_spaces import program


@pytest.mark.parametrize("seed", range(12))
def test_each_object_runs_the_text_of_its_space(seed: int) -> None:
    text, expected = program(seed)
    library = simulator.compile(text)
    x = np.arange(1, 65, dtype=np.float32)
    for form in ("plain", "sanitize", "count"):
        y = np.zeros(len(expected), np.float32)
        outcome = library.kernel("k").launch(
            [x, x.copy(), y],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            sanitize=form == "sanitize",
            count=form == "count",
        )
        assert y.tolist() == expected, text
        assert not outcome.reports
