"""Every page that shows a prediction for a chip says where its costs were fitted."""

from collections.abc import Callable

import pytest

from kernelwright.evaluator.gain import Gain
from kernelwright.service.view.speedup import gain_line, speedup_note

PAGES: dict[str, Callable[[Gain], str]] = {
    "words": lambda gain: gain.words,
    "line": lambda gain: gain_line(gain).plain,
    "note": lambda gain: speedup_note([gain]),
}


def _gain(chip: str) -> Gain:
    return Gain(kind="predicted", baseline="mx.fast", chip=chip, ratio=1.3, kernel_us=10.0)


@pytest.mark.parametrize("page", PAGES)
def test_a_prediction_for_an_apple_chip_says_that_its_costs_are_an_h200_s(page: str) -> None:
    caveat = "costs fitted on an H200 and carried over to m4"
    assert caveat in PAGES[page](_gain("m4"))
    assert "fitted" not in PAGES[page](_gain("h200"))


@pytest.mark.parametrize("page", PAGES)
def test_a_measurement_carries_nothing_over(page: str) -> None:
    measured = _gain("Apple M4").model_copy(update={"kind": "measured", "lower": 1.2, "upper": 1.4})
    assert "fitted" not in PAGES[page](measured)
