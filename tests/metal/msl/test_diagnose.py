"""clang's output becomes diagnostics of the candidate's text, in Apple's words."""

import pytest

from kernelwright.metal.diagnostic import Diagnostic, Severity
from kernelwright.metal.msl.diagnose import Place, diagnose, in_apples_words

LINES = ["line one", "  y[i] = f(x);", "line three"]


def diagnosed(said: str) -> tuple[Diagnostic, ...]:
    def locate(place: Place) -> Place | None:
        return place if place.file == "source" else None

    return diagnose(said, locate=locate, sources={"source": LINES})


@pytest.mark.parametrize(
    ("said", "in_apples"),
    [
        (("cannot initialize a variable of type '__local float *' with an lvalue of type "
         "'__global_device float *'"),
         ("cannot initialize a variable of type 'threadgroup float *' with an lvalue of type "
         "'device float *'")),
        ("no viable conversion from 'vec<bool, 4>' to 'vec<uint, 4>'",
         "cannot initialize a variable of type 'uint4' with an rvalue of type 'bool4'"),
        ("no member named 'q' in 'metal::vec<unsigned int, 3>'", "no member named 'q' in 'uint3'"),
        ("no template named 'visible_function_table'; did you mean 'x'?",
         ("'visible_function_table' is not supported by the simulator, which runs kernels over "
         "buffers alone")),
        ("value of type 'float4' (aka 'vec<float, 4>')", "value of type 'float4'"),
        ("use of 'const __global_host int'", "use of 'constant int'"),
        ("use of undeclared identifier 'b'; did you mean 'kw_swizzles_3::b'?",
         "use of undeclared identifier 'b'"),
        ("use of undeclared identifier 'lenght'; did you mean 'length'?",
         "use of undeclared identifier 'lenght'; did you mean 'length'?"),
        ("'kw_threadgroup_memory<40000ULL, 32768ULL>' is deprecated",
         "Threadgroup memory size (40000) exceeds the maximum threadgroup memory allowed (32768)"),
    ],
)  # fmt: skip
def test_messages_are_translated(said: str, in_apples: str) -> None:
    assert in_apples_words(said) == in_apples


def test_a_message_has_its_place_and_its_line() -> None:
    [found] = diagnosed("source:2:10: error: use of undeclared identifier 'f'\n1 error generated.")
    assert (found.file, found.line, found.column) == ("source", 2, 10)
    assert (found.severity, found.source_line) == (Severity.ERROR, LINES[1])


def test_an_error_in_a_library_moves_to_the_line_that_led_there() -> None:
    said = (
        "/lib/metal_math:9:1: error: static assertion failed\n"
        "/lib/metal_math:5:1: note: while substituting into a lambda\n"
        "source:2:10: note: in instantiation of function template 'f<int>' requested here\n"
    )
    error, note = diagnosed(said)
    assert (error.line, error.column, error.severity) == (2, 10, Severity.ERROR)
    assert note.severity is Severity.NOTE


def test_what_an_overload_of_the_library_requires_is_told_once() -> None:
    said = (
        "source:2:10: error: no matching function for call to 'f'\n"
        "/lib/metal:1:1: note: candidate function not viable: requires 3 arguments, but 2 were "
        "provided\n"
        "/lib/metal:2:1: note: candidate function not viable: requires 3 arguments, but 2 were "
        "provided\n"
        "/lib/metal:3:1: note: candidate template ignored: requirement 'kw_x' was not satisfied\n"
    )
    error, note = diagnosed(said)
    assert error.message == "no matching function for call to 'f'"
    assert (note.line, note.column) == (2, 10)


def test_errors_that_follow_from_another_are_left_out() -> None:
    said = (
        "source:2:10: error: use of undeclared identifier 'f'\n"
        "source:2:10: error: call to non-static member function\n"
        "/lib/metal:9:1: error: size of '__builtin_bit_cast' source type\n"
    )
    assert [d.message for d in diagnosed(said)] == ["use of undeclared identifier 'f'"]


def test_warnings_keep_their_severity() -> None:
    [found] = diagnosed("source:3:1: warning: unused variable 'a' [-Wunused-variable]")
    assert (found.severity, found.message) == (Severity.WARNING, "unused variable 'a'")
