"""Diagnostics print the way Apple's compiler does."""

from kernelwright.metal.diagnostic import CompileError, Diagnostic


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
