"""The preprocessor that knows Metal's macros and the text's own."""

import time
from collections.abc import Iterator
from typing import get_args

import pytest

from kernelwright.evaluator.attacks.corpus import bases
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.static.preprocess import Refusal, preprocess
from kernelwright.evaluator.static.rules import check_kernel
from kernelwright.metal.device.simulator.library import compile as compile_metal
from kernelwright.metal.device.simulator.toolchain import Variant
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.kernel import Dimensions, Kernel
from kernelwright.metal.msl.token import tokenize

_ONE: Dimensions = (1, 1, 1)


def _kernel(source: str, header: str = "") -> Kernel:
    return Kernel(
        name="probe",
        inputs=("x",),
        outputs=("y",),
        source=source,
        header=header,
        grid=_ONE,
        threadgroup=_ONE,
    )


def _words(text: str) -> list[str]:
    return [token.spelling for token in tokenize(text) if token.is_code]


@pytest.mark.parametrize(
    ("header", "source", "expected"),
    [
        ("#define N 4\n", "a = N;", "a = 4 ;"),
        ("#define F(v) ((v) * (v))\n", "a = F(b + 1);", "a = ((b + 1) * (b + 1)) ;"),
        ("#define F(v) v\n", "a = F(F(F(1)));", "a = 1 ;"),
        ("#define F(v) v\n", "int F = F (2);", "int F = 2 ;"),
        ("#define A B\n#define B A\n", "A;", "A ;"),
        ("#define CALL(f, ...) f(__VA_ARGS__)\n", "CALL(g, 1, (2, 3));", "g(1, (2, 3)) ;"),
        ("#define G(a, ...) g(a __VA_OPT__(,) __VA_ARGS__)\n", "G(1); G(1, 2);",
         "g(1 ) ; g(1 , 2) ;"),
        ("#define NEG -1\n", "a = -NEG;", "a = - -1 ;"),
        ("#define N 1\n#undef N\n", "a = N;", "a = N;"),
        ("#define E\n", "E a E = 1;", "a = 1;"),
        ("", "#if 0\na;\n#elif 1 ? 0x10 > 8u && !defined(NO) : 0\nb;\n#else\nc;\n#endif", "b;"),
        ("", "#ifdef INFINITY\na = INFINITY;\n#endif", "a = INFINITY;"),
        ("", "#if __METAL_VERSION__ >= 310\na;\n#else\nb;\n#endif", "a;"),
        ("#define N 2\n", "#pragma unroll(N)\nfor (;;) {}", "#pragma unroll ( 2 ) for (;;) {}"),
    ],
)  # fmt: skip
def test_macros_and_conditions_are_those_of_c(header: str, source: str, expected: str) -> None:
    assert _words(preprocess(header, source).source) == _words(expected)


def test_every_line_stays_where_it_is() -> None:
    header = "#define F(a, b) a + \\\n  b\n#if 0\nint no;\n#endif\nint yes;\n"
    source = "int a = F(1,\n  2);\nint b;\n"
    made = preprocess(header, source)
    assert made.header.split("\n").index("int yes;") == header.split("\n").index("int yes;")
    assert made.source.split("\n").index("int b;") == source.split("\n").index("int b;")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#if defined(TARGET_OS_OSX)\n#endif", "tells one compiler from another"),
        ("#if __METAL_VERSION__ >= 400\na;\n#endif", "another version of Metal"),
        ("#if FLT_MAX > 1\n#endif", "cannot compare FLT_MAX"),
        ("#if 1", "no #endif"),
        ("#else", "no #if before it"),
        ("#if 1 +\n#endif", "expected an integer"),
        ("#define F(a) a\nF(1, 2)", "takes 1 arguments, found 2"),
        ("#define F(a) a\nF(1", "never ends"),
        ("#error no", "#error no"),
        ("#define F(a) a a\n" + "F(" * 40 + "1" + ")" * 40, "macros make more than"),
        ("#define F(a) a\n" + "F(" * 5000 + "1" + ")" * 5000, "macros nest|make more"),
        ("\n".join(f"#define A{i} A{i + 1}" for i in range(300)) + "\nA0", "nest more than"),
    ],
)
def test_what_makes_no_sense_or_asks_too_much_is_refused(text: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        preprocess("", text)


@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ("#define SPIN for (;;) {}\nvoid f() { SPIN }", "endless"),
        ("#define WORD asm\n", "word"),
        ("#ifdef KW_COUNT\n#endif", "word"),
        ("#ifdef kw_COUNT\n#endif", "word"),
        ("#if __LINE__ > 3\n#endif", "word"),
        ("float f() { return kw::exp(1.0f); }", "word"),
        ("using namespace kw;", "word"),
        ("namespace k = kw;", "word"),
        ("int n = _LP64;", "word"),
        ("float f() { return threadIdx.x; }", "word"),
        ("void f() { getenv(0); }", "word"),
        ("#undef INFINITY\n", "redefinition"),
    ],
)
def test_what_only_the_expanded_text_says_is_judged_too(header: str, rule: str) -> None:
    assert rule in {d.rule for d in check_kernel(_kernel("y[0] = 1;", header))}


@pytest.mark.parametrize("name", ["kw", "KW", "kernel_width", "linux", "read", "write", "clock"])
def test_ordinary_names_stay_free(name: str) -> None:
    assert check_kernel(_kernel(f"int {name} = 3; y[0] = {name};")) == ()


HARD = {
    "commas": ",",
    "calls": "f(,",
    "loops": "for(",
    "attributes": "[[a,",
    "attribute lists": "__attribute__((",
    "comments": "/*",
    "strings": '"\\',
    "raw strings": 'R"(',
    "characters": "'\\",
    "closing brackets": ") x ",
    "aligned": "alignas(x) y ",
    "definitions": "#define a\n",
    "conditions": "#if 1\n",
    "typedefs": "typedef a ",
    "splices": "a\\\n",
}


def _seconds(text: str) -> Iterator[float]:
    """Yield what three checks of a text take."""
    kernel = _kernel(text)
    for _ in range(3):
        started = time.process_time()
        check_kernel(kernel)
        yield time.process_time() - started


@pytest.mark.parametrize("unit", HARD.values(), ids=list(HARD))
@pytest.mark.sampled(8)
def test_static_rules_are_linear_in_the_text(unit: str) -> None:
    short, long = (_seconds((unit * size)[:size]) for size in (10_000, 100_000))
    # Ten times the text: quadratic rules take a hundred times as long.
    limit_s = 40 * min(short) + 0.02
    assert any(taken_s < limit_s for taken_s in long)


@pytest.mark.parametrize(
    "text",
    [
        *("a\0b", "\ud800", "int \u2028 a;", "\x1b[2J", "/* \u202e */", "// a\u200bb"),
        *("// \U000e0041", "// \x9b1m", "int a\u3164 = 1;", "int pr\u0456me = 1;"),
    ],
)
def test_what_is_no_character_of_a_text_is_refused_by_one_sentence(text: str) -> None:
    found = check_kernel(_kernel(text))
    assert [d.rule for d in found] == ["character"]


def test_every_build_compiles_the_same_text() -> None:
    program = bases()["isolation"].program
    kernel = normalise(program).kernels[0]
    header = "#define TWICE(v) ((v) * 2)\n#ifdef MINE\nint never;\n#endif\n"
    changed = program.model_copy(
        update={"kernels": (kernel.model_copy(update={"header": header}),)}
    )
    plain = normalise(changed).kernels[0]
    assert "#" not in plain.header + plain.source


SOURCE = """#include <metal_stdlib>
using namespace metal;
{before}
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {{ {inside} }}
"""


@pytest.mark.parametrize(
    ("before", "inside", "words"),
    [
        ('void quit() KW_LABEL("getpid");', "quit(); y[i] = 1;", "'KW_LABEL' is a name"),
        ("float absent(float v);", "y[i] = absent(1);", "absent is used"),
        ("struct A { static inline int n; };", "y[i] = A::n++;", "outlives its launch"),
        ('[[gnu::section(".text")]] int z = 3;', "y[i] = z;", "outlives its launch"),
    ],
)
def test_a_compiled_text_refers_to_metals_library_alone(
    before: str, inside: str, words: str
) -> None:
    with pytest.raises(CompileError, match=words):
        compile_metal(SOURCE.format(before=before, inside=inside))


@pytest.mark.parametrize("variant", get_args(Variant))
def test_every_build_of_an_honest_text_refers_to_nothing_else(variant: Variant) -> None:
    inside = """
    threadgroup float shared[32];
    constant static float table[2] = {1, 2};
    shared[i % 32] = pow(2.0f, table[i % 2]) + fmod(float(i), 3.0f) + tan(1.0f * i);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = simd_sum(shared[(i + 1) % 32]) + precise::sin(y[i]) + precise::cos(y[i]);
    """
    assert compile_metal(SOURCE.format(before="", inside=inside), variant=variant).kernels
