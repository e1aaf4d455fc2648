"""A text cannot name what the simulator adds to it, nor learn by which build it is compiled."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal import CompileError, simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_STORE = "kernel void k(device float* o, uint i [[thread_position_in_grid]]) {{ {} }}\n"
_GIVEN = "#define U(x) _Pragma(#x)\n"
_PASTE = "#define A(x, y) x##y\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KW_UNSEEN void f(device float* o) { o[0] = 1; }", "'KW_UNSEEN'"),
        ("#define U KW_UNSEEN", "'KW_UNSEEN'"),
        ("#ifdef KW_SANITIZE\n#endif", "'KW_SANITIZE'"),
        ("void f() { kw_count(KW_SPECIAL, 1000000u); }", "'kw_count'"),
        ("constexpr constant int n = sizeof(kw_thread);", "'kw_thread'"),
        ("void f() { kw_call_k(0, 0); }", "'kw_call_k'"),
        ("float f(float x) { return kw_math::exp(x); }", "'kw_math' is a name of the simulator's"),
        (f'{_GIVEN}U(comment(lib, "m")) void f() {{}}', "_Pragma|comment"),
        (f"{_GIVEN}#define V U\nV(clang attribute) void f() {{}}", "'_Pragma' needs"),
        (f"{_GIVEN}#define V(y) U(y)\nV(clang attribute) void f() {{}}", "the pragma y"),
        (f"{_PASTE}A(KW_UN, SEEN) void f() {{}}", "can make KW_UNSEEN"),
        (f"{_PASTE}A(K, W_UNSEEN) void f() {{}}", "'W_UNSEEN'|can make KW_UNSEEN"),
        ("#define A(x) x##_##UNSEEN\nA(KW) void f() {}", "can make KW_UNSEEN"),
        ("#define A(x, y) x %:%: y\n#define B kw\nA(B, _count)", "can make kw_count"),
        (f'{_PASTE}A(_, Pragma)("comment(lib, \\"m\\")")', "can make _Pragma"),
        ("int f() { return __sync_fetch_and_add((thread int*)0, 1); }", "'__sync_fetch_and_add'"),
        ("_Thread_local int x;", "'_Thread_local'"),
        ("#define HAS __has_feature\n#if HAS(thread_sanitizer)\n#endif", "needs what it asks for"),
        (f"{_PASTE}#if A(__has_, feature)(thread_sanitizer)\n#endif", "can make __has_feature"),
    ],
)
def test_an_internal_name_is_refused(text: str, expected: str) -> None:
    with pytest.raises(CompileError, match=expected) as caught:
        simulator.compile(_HEAD + text + "\n" + _STORE.format("o[i] = 1;"))
    assert caught.value.diagnostics[0].line > 2


def test_an_included_file_names_nothing_internal_either(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("inline void f() { kw_barrier(2, 0); }\n")
    with pytest.raises(CompileError, match="'kw_barrier' is a name of the simulator's") as caught:
        simulator.compile(f'#include "own.h"\n{_HEAD}', folders=[tmp_path])
    assert caught.value.diagnostics[0].file == str(tmp_path / "own.h")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#ifndef __OWN_H__\n#define __OWN_H__\nconstant constexpr int V = 3;\n#endif", 3),
        (
            "template <typename _T>\n_T __two(_T __x) { return __x + __x; }\n#define V __two(2)",
            4,
        ),
        ("inline int __attribute__((always_inline)) f() { return 5; }\n#define V f()", 5),
        ("#define V __METAL_VERSION__", 400),
        ("#define J(a, b) a##_##b\nconstant constexpr int J(k, w) = 6;\n#define V k_w", 6),
        ("inline int f() { int kw = 7; return kw; }\n#define V f()", 7),
        ("#ifdef __SANITIZE_THREAD__\n#define V 1\n#else\n#define V 8\n#endif", 8),
    ],
)
def test_names_of_a_texts_own_and_of_metals_stay(text: str, value: int) -> None:
    o = np.zeros(1, np.float32)
    library = simulator.compile(_HEAD + text + "\n" + _STORE.format("o[i] = V;"))
    library.kernel("k").launch([o], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert o[0] == value


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("__has_feature(thread_sanitizer)", 0),
        ("__has_feature(cxx_constexpr)", 1),
        ("__has_feature(cxx_exceptions)", 0),
        ("__has_extension(__cxx_lambdas__)", 1),
        ("__has_builtin(__builtin_ia32_rdtsc)", 0),
        ("__has_attribute(__always_inline__)", 1),
        ("__has_attribute(no_sanitize)", 0),
        ("__has_cpp_attribute(nodiscard)", 201603),
        ("__is_target_arch(x86_64)", 0),
        ("defined(__has_feature) && __has_feature(thread_sanitizer)", 0),
    ],
)
@pytest.mark.parametrize("build", ["plain", "sanitize", "count"])
def test_every_build_has_the_same_answer(question: str, answer: int, build: str) -> None:
    text = f"#if {question}\n#define V 1\n#else\n#define V 0\n#endif\n"
    o = np.zeros(1, np.float32)
    library = simulator.compile(_HEAD + text + _STORE.format("o[i] = V;"))
    library.kernel("k").launch(
        [o],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        sanitize=build == "sanitize",
        count=build == "count",
    )
    assert o[0] == bool(answer)


@pytest.mark.parametrize(
    "pragma",
    [
        'comment(lib, "m")',
        'comment(linker, "/x")',
        'GCC dependency "/etc/hostname"',
        "clang __debug crash",
        "weak foo",
        "redefine_extname foo malloc",
        'push_macro("device")',
        "GCC poison device",
        "GCC system_header",
        "clang attribute push(__attribute__((noinline)), apply_to = function)",
    ],
)
@pytest.mark.parametrize("form", ["#pragma {}", '_Pragma("{}")', '#define P _Pragma("{}")\nP'])
def test_pragmas_that_metal_has_not_are_refused(pragma: str, form: str) -> None:
    written = pragma if form.startswith("#pragma") else pragma.replace('"', '\\"')
    with pytest.raises(CompileError, match=r"the pragma .* is not supported in Metal; remove it"):
        simulator.compile(_HEAD + form.format(written) + "\n" + _STORE.format("o[i] = 1;"))


def test_a_pragma_that_a_macro_spells_is_refused() -> None:
    text = '#define D(x) _Pragma(#x)\nD(GCC dependency "/etc/hostname")\n'
    with pytest.raises(CompileError, match="the pragma GCC dependency is not supported"):
        simulator.compile(_HEAD + text + _STORE.format("o[i] = 1;"))


def test_a_pragma_that_another_text_spells_is_refused() -> None:
    text = _HEAD + "U(clang attribute) void f() {}\n" + _STORE.format("o[i] = 1;")
    with pytest.raises(CompileError, match="the pragma clang attribute is not supported"):
        simulator.compile(text, header="#define U(x) _Pragma(#x)\n")


@pytest.mark.parametrize(
    "pragma", ["unroll", "unroll(4)", "clang loop unroll(full)", "clang loop unroll_count(2)"]
)
@pytest.mark.parametrize("form", ["\n#pragma {}  // hint\n", ' _Pragma("{}") '])
def test_hints_for_loops_stay(pragma: str, form: str) -> None:
    loop = form.format(pragma) + "for (int j = 0; j < 4; j++) o[j] = 1;"
    simulator.compile(_HEAD + _STORE.format(loop))


@pytest.mark.parametrize(
    "pragma",
    [
        "#pragma STDC FP_CONTRACT OFF",
        "#pragma METAL fp math_mode(fast)",
        "#pragma METAL internals : enable",
        '#pragma clang diagnostic ignored "-Wunused"',
        '_Pragma("clang diagnostic push")',
        "#pragma mark helpers",
        "#pragma",
        '#if 0\n#pragma comment(lib, "m")\n#endif',
    ],
)
def test_pragmas_that_change_nothing_stay(pragma: str) -> None:
    simulator.compile(_HEAD + pragma + "\n" + _STORE.format("o[i] = 1;"))


def test_no_warning_is_silenced_that_the_simulator_takes_for_an_error() -> None:
    text = '#pragma clang diagnostic ignored "-Wvla-cxx-extension"\n'
    with pytest.raises(CompileError, match="variable length arrays are not supported in Metal"):
        simulator.compile(_HEAD + text + _STORE.format("int a[i + 1]; a[0] = 1; o[i] = a[0];"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("constant int kw = 3;\n#define V kw", 3),
        ("namespace kw { constant int a = 4; }\n#define V kw::a", 4),
        ("struct kw { int x; };\n#define V kw{5}.x", 5),
        (
            """#define U(x) _Pragma(#x)
inline int f() { int s = 0; U(clang loop unroll(full))
  for (int j = 0; j < 4; j++) s += j; return s; }
#define V f()""",
            6,
        ),
    ],
)
def test_what_looks_like_one_has_its_own_meaning(text: str, value: int) -> None:
    o = np.zeros(32, np.float32)
    library = simulator.compile(_HEAD + text + "\n" + _STORE.format("o[i] = V;"))
    library.kernel("k").launch([o], grid=(32, 1, 1), threadgroup=(32, 1, 1))
    assert (o == value).all()
