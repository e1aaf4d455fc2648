"""What is said of an error: a sentence, whoever raised it."""

import pytest
from pydantic import ValidationError

from kernelwright.metal.kernel import Tensor
from kernelwright.search.failure import described


def test_a_record_that_refuses_a_value_is_described_in_a_line() -> None:
    with pytest.raises(ValidationError, match="string_pattern_mismatch") as caught:
        Tensor.model_validate({"name": "x" * 65, "dtype": "float32", "shape": (1,)})
    said = described(caught.value)
    assert said.startswith("ValidationError: expected name to be a name of at most 64 letters")
    assert "\n" not in said
    assert "pydantic.dev" not in said
