"""Tests that precompiled headers do without the list of what clang would read for each text."""

import re

from kernelwright.metal.device.simulator import toolchain
from kernelwright.metal.device.simulator.deferred_checks import without_deferred_checks

_READ = re.compile(r"(\d+)/\d+ statements read")
_HEADER = "".join(f"inline int kw_made_{i}(int x) {{ return x + {i}; }}\n" for i in range(64))


def _statements_read(header: str, text: str) -> int:
    """Count what clang reads of a header's functions for a text."""
    compiled = toolchain.precompiled_header(header, "plain")
    with toolchain.workspace() as folder:
        source = folder / "text.cpp"
        source.write_text(text)
        command = ["clang", "-x", "c++", *toolchain.flags("plain"), *toolchain.DIAGNOSTIC_FLAGS]
        command += ["-include-pch", str(compiled), "-fsyntax-only", "-Xclang", "-print-stats"]
        _, said = toolchain.run([*command, str(source)])
    found = _READ.search(said)
    assert found is not None, said
    return int(found[1])


def test_a_text_reads_no_function_that_it_does_not_call() -> None:
    calls = "[[clang::sycl_external]] int f() { return kw_made_3(1); }\n"

    assert _statements_read(_HEADER, "\n") == 0
    assert 0 < _statements_read(_HEADER, calls) < 8


def test_headers_of_another_compiler_stay_as_they_are() -> None:
    header = toolchain.precompiled_header(_HEADER, "plain").read_bytes()

    assert without_deferred_checks(header, "ziglang 0.18.0") == header
