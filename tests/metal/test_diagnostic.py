"""Diagnostics print the way Apple's compiler does; records keep their numbers."""

import json
import math

import pytest

from kernelwright.metal.diagnostic import CompileError, Diagnostic, Record


def test_caret_stands_under_the_column_even_after_tabs() -> None:
    diagnostic = Diagnostic(
        message="use of undeclared identifier 'foo'", line=3, column=6, source_line="\ty = foo;"
    )
    place, line, caret = str(diagnostic).split("\n")
    assert place == "source:3:6: error: use of undeclared identifier 'foo'"
    assert caret == "\t    ^"
    assert line[caret.index("^")] == "f"


def test_compile_error_shows_every_diagnostic() -> None:
    error = CompileError((Diagnostic(message="one"), Diagnostic(message="two")))
    assert "one" in str(error)
    assert "two" in str(error)


class _Measured(Record):
    value: float
    found: float | None = None


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-45])
def test_a_records_numbers_come_back_from_json(value: float) -> None:
    kept = _Measured(value=value, found=value).model_dump_json()
    read = _Measured.model_validate_json(kept)
    assert repr(read) == repr(_Measured(value=value, found=value))
    assert _Measured.model_validate(json.loads(kept)).model_dump_json() == kept
