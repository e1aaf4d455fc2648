"""A text reads Metal's own headers and files of named folders, and nothing else of the machine."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal import CompileError, simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_KERNEL = "kernel void k(device int* y [[buffer(0)]]) { y[0] = 1; }\n"
_SECRET = "int secret_of_the_machine = 3;\n"


def _values(text: str, folder: Path | None = None) -> int:
    y = np.zeros(1, np.int32)
    folders = [] if folder is None else [folder]
    kernel = simulator.compile(_HEAD + text, folders=folders).kernel("k")
    kernel.launch([y], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    return int(y[0])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "secret.h").write_text(_SECRET)
    return tmp_path / "secret.h"


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ('#include "{}"', "file not found in the folders that this text may include from"),
        ("#include <{}>", "file not found in the folders"),
        ('#import "{}"', "file not found in the folders"),
        ('#inc\\\nlude "{}"', "file not found in the folders"),
        ('%: /**/ include /**/ "{}"', "file not found in the folders"),
        ('#include "../secret.h"', "file not found in the folders"),
        ('#define F "{}"\n#include F', "found what a macro would have to give"),
        ('#include_next "{}"', "invalid preprocessing directive '#include_next'"),
        ('#embed "{}"', "invalid preprocessing directive '#embed'"),
        ('#pragma GCC dependency "{}"', "the pragma GCC dependency is not supported in Metal"),
        ('#include "kw/abi.h"', "file not found in the folders"),
        ('__asm__(".incbin \\"{}\\"");', "'__asm__' is not supported in Metal"),
        ('#define P(a, b) a##b\nP(__as, m__)(".incbin \\"{}\\"");', ""),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_a_file_of_the_machine_is_not_read(
    secret: Path, directive: str, expected: str, hidden: bool
) -> None:
    text = directive.format(secret) + "\n" + _KERNEL
    if hidden:
        # Kernels in macros are preprocessed before they are read.
        text += "#define MAKE(n) kernel void n(device int* y [[buffer(0)]]) {}\nMAKE(m)\n"
    with pytest.raises(CompileError) as caught:
        simulator.compile(_HEAD + text, folders=[secret.parent / "own"])
    assert expected in str(caught.value)
    assert "secret_of_the_machine" not in str(caught.value)


def test_an_error_names_the_line_of_the_directive(secret: Path) -> None:
    with pytest.raises(CompileError) as caught:
        simulator.compile(f'{_HEAD}\n#include "{secret}"\n{_KERNEL}')
    assert caught.value.diagnostics[0].line == 4


def test_what_is_not_compiled_is_no_error(secret: Path) -> None:
    assert _values(f'#if 0\n#include "{secret}"\n#embed "{secret}"\n#endif\n{_KERNEL}') == 1


def test_folders_that_are_named_may_be_left_by_no_name(secret: Path) -> None:
    own = secret.parent / "own"
    (own / "deep").mkdir()
    (own / "one.h").write_text('#include "deep/two.h"\n')
    (own / "deep" / "two.h").write_text('#include "../three.h"\n')
    (own / "three.h").write_text("constant int three = 3;\n")
    text = _KERNEL.replace("= 1", "= three")
    assert _values(f'#include "one.h"\n{text}', own) == 3
    (own / "three.h").write_text('#include "../secret.h"\nconstant int three = 3;\n')
    with pytest.raises(CompileError, match=r"'../secret.h' file not found in the folders"):
        _values(f'#include "one.h"\n{text}', own)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("__has_include(<metal_stdlib>)", 1), ("__has_include(<metal_simdgroup>)", 1),
        ("__has_include(<simd/simd.h>)", 1), ("__has_include(<metal_tensor>)", 1),
        ('__has_include("{}")', 0), ("__has_include(<{}>)", 0), ('__has_embed("{}")', 0),
        ('__has_include("../secret.h")', 0), ("__has_include(<stdio.h>)", 0),
        ('P(__has, _include)("{}")', 0), ('__has_include("mine.h")', 1),
        ("defined(__has_include)", 1), ("defined(__linux__)", 0), ("defined(__x86_64__)", 0),
        ("defined(__aarch64__)", 0), ("defined(__AVX2__)", 0), ("defined(__METAL__)", 1),
    ],
)  # fmt: skip
def test_a_probe_gives_nothing_of_the_machine(secret: Path, condition: str, expected: int) -> None:
    (secret.parent / "own" / "mine.h").write_text("")
    asked = f"#define P(a, b) a##b\n#if {condition.format(secret)}\n#define V 1\n#else\n"
    text = f"{asked}#define V 0\n#endif\n" + _KERNEL.replace("= 1", "= V")
    assert _values(text, secret.parent / "own") == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("__FILE__", "source"), ("__BASE_FILE__", "source"), ("__DATE__", "Jan  1 1970"),
        ("__TIME__", "00:00:00"), ("__TIMESTAMP__", "Thu Jan  1 00:00:00 1970"),
    ],
)  # fmt: skip
def test_names_of_time_and_place_are_the_same_everywhere(word: str, expected: str) -> None:
    same = " && ".join(f"s[{i}] == {ord(c)}" for i, c in enumerate(f"{expected}\0"))
    text = f"constexpr bool same(const thread char* s) {{ return {same}; }}\n"
    assert _values(text + _KERNEL.replace("= 1", f"= same({word})")) == 1
