"""What macros expand to is known before they are."""

import pytest

from kernelwright.metal import CompileError, simulator
from kernelwright.metal.msl.macro_size import MOST_TOKENS, MacroSizes
from kernelwright.metal.msl.token import tokenize

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def _size(text: str) -> int:
    tokens = tokenize(text)
    return MacroSizes.of(tokens).size([t for t in tokens if t.is_code and not t.directive])


def _doubled(count: int, first: str = "+1") -> str:
    lines = [f"#define A0 {first}", *(f"#define A{n} A{n - 1} A{n - 1}" for n in range(1, count))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("int x = 3;", 5),
        ("#define N 3 + 4\nint x = N;", 7),
        ("#define N (3)\nint x = N;", 7),
        ("#define T(x) x x\nT(1 2) T", 5),
        ("#define T(x) x x\nT(T(T(1)))", 8),
        ("#define T(x) x x\n#define U(f, y) f(f(y))\nU(T, 1)", 4),
        ("#define V(...) __VA_ARGS__ + __VA_ARGS__\nV(1, 2)", 9),
        ("#define E()\nE() E()", 2),
        ("#define R R + 1\nR", 3),
        ("#if 1\n#define N 1\n#else\n#define N 1 2 3\n#endif\nN", 3),
        (_doubled(11) + "A10", 2048),
        (_doubled(40) + "A39", MOST_TOKENS + 1),
        ("#define D(x) x x\n" + "D(" * 60 + "1" + ")" * 60, MOST_TOKENS + 1),
    ],
)
def test_a_size_is_that_of_the_expanded_text(text: str, size: int) -> None:
    assert min(_size(text), MOST_TOKENS + 1) == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_doubled(30) + "kernel void k(device int* o) { o[0] = 0 A29; }", "the text has more than"),
        (_doubled(60, "") + "kernel void k(device int* o) { o[0] = 0 A59; }", "the text has more"),
        (_doubled(17) + "kernel void k(device int* o) { o[0] = 0 A16; }", "the function 'k' has"),
        ("kernel void k(device int* o) {" + "o[0] = 1;" * 6000 + "}", "the function 'k' has more"),
    ],
)
def test_what_is_too_large_is_refused_by_its_size(text: str, expected: str) -> None:
    with pytest.raises(CompileError, match=f"{expected}.* tokens once its macros are expanded"):
        simulator.compile(_HEAD + text)
