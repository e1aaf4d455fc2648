"""`kernelwright metal` on files as a person has them."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from kernelwright.errors import InputError, KernelwrightError, UsageError
from kernelwright.service.commands import app

SAXPY = """#include <metal_stdlib>
using namespace metal;
constant float bias [[function_constant(0)]];
kernel void saxpy(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                  constant float& a [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + bias;
}
kernel void beyond(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = x[i + 1];
}
"""
BUFFERS = ("-b", "x=f32[64]", "-b", "y=f32[64]")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "saxpy.metal"
    path.write_text(SAXPY)
    return str(path)


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["metal", *arguments], env={"COLUMNS": "120"})


def test_check_names_the_kernels(file: str) -> None:
    result = typed("check", file)
    assert result.exit_code == 0
    assert "compiles  saxpy, beyond" in result.output


def test_check_prints_errors_as_a_compiler_does(tmp_path: Path) -> None:
    path = tmp_path / "bad.metal"
    path.write_text("kernel void f(device float* y [[buffer(0)]]) {\n  double x = 1;\n}\n")
    result = typed("check", str(path))
    assert result.exit_code == 1
    assert "bad.metal:2:3: error: 'double' is not supported in Metal\n  double x" in result.output
    found = json.loads(typed("check", str(path), "--json").output)
    assert not found["compiles"]
    assert [(d["line"], d["column"]) for d in found["diagnostics"]] == [(2, 3)]


def test_run_takes_files_and_saves_what_was_written(file: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.float32))
    buffers = ("-b", f"x={tmp_path / 'x.npy'}", "-b", "1=f32[64]", "-b", "a=2.5")
    sizes = ("-k", "saxpy", "-g", "64", "-t", "32", "--constant", "bias=1")
    result = typed("run", file, *sizes, *buffers, "--save", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert "158.5" in result.output
    y = np.load(tmp_path / "out" / "y.npy")
    np.testing.assert_array_equal(y, np.arange(64, dtype=np.float32) * 2.5 + 1)


def test_sanitize_shows_the_line_and_fails(file: str) -> None:
    result = typed("sanitize", file, "-k", "beyond", "-g", "64", *BUFFERS)
    assert result.exit_code == 1
    assert "saxpy.metal:10: device out of bounds" in result.output
    assert "y[i] = x[i + 1];" in result.output
    found = json.loads(
        typed("sanitize", file, "-k", "beyond", "-g", "64", *BUFFERS, "--json").output
    )
    assert found["reports"][0]["variable"] == "x"


def test_a_clean_kernel_is_said_to_be_clean(file: str) -> None:
    result = typed(
        "sanitize", file, "-k", "saxpy", "-g", "64", *BUFFERS, "-b", "a=1", "--constant", "bias=0"
    )
    assert result.exit_code == 0
    assert "found nothing" in result.output


def test_profile_counts_and_predicts(file: str) -> None:
    sizes = ("-k", "saxpy", "-g", "64", *BUFFERS, "-b", "a=1", "--constant", "bias=0")
    found = json.loads(typed("profile", file, *sizes, "--chip", "m2-pro", "--json").output)
    assert found["counters"]["threads"] == 64
    assert [p["label"] for p in found["predictions"]] == ["prediction"]
    output = typed("profile", file, *sizes, "--chip", "m2-pro").output
    assert "prediction" in output
    assert "costs fitted on an H200 and carried over to m2-pro" in output


def test_profile_shows_the_dominating_bound_on_a_named_chip(file: str) -> None:
    sizes = (
        "-k",
        "saxpy",
        "-g",
        "64",
        *BUFFERS,
        "-b",
        "a=1",
        "--constant",
        "bias=0",
        "--chip",
        "m4-max",
    )
    (found,) = json.loads(typed("profile", file, *sizes, "--json").output)["predictions"]
    # Any launch takes about as long, of which its threads' latency is all that could be shorter.
    assert (found["chip"], found["bound"]) == ("m4-max", "launch")
    assert max(found["bounds_us"], key=found["bounds_us"].__getitem__) == "latency"
    shown = typed("profile", file, *sizes).output.split("\n")
    row = next(line for line in shown if line.startswith("m4-max"))
    assert re.search(rf"~[\d.]+ \S+ +{found['bound']} +\d+% +prediction", row)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-g", "64"), "several kernels; name one with --kernel: saxpy, beyond"),
        (("-k", "beyond", "-g", "0"), "expected a size such as 1024 or 32,8,1; found '0'"),
        (("-k", "beyond", "-g", "64", "-b", "z=1"), r"beyond has no buffer 'z'; .* x \(0\)"),
        (("-k", "beyond", "-g", "64", "-b", "x"), "expected NAME=VALUE, found 'x'"),
        (("-k", "beyond", "-g", "64", "-b", "x=no.npy"), "no.npy is not an array"),
        (("-k", "beyond", "-g", "64", "-b", "x=odd:f32[4]"), "expected random:, zeros: or fresh:"),
        (("-k", "beyond", "-g", "64", "-b", "x=many"), "expected a number, found 'many'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    file: str, arguments: tuple[str, ...], message: str
) -> None:
    result = typed("run", file, *arguments)
    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise result.exception


def _claimed(count: int) -> bytes:
    """Return the header of an array in .npy, without its elements."""
    written = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(written, header)
    return written.getvalue()


def _archive() -> bytes:
    written = io.BytesIO()
    np.savez(written, a=np.zeros(1), b=np.zeros(1))
    return written.getvalue()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (b"", "is not an array that NumPy can read"),
        (b"PK\x03\x04", "is not an array that NumPy can read"),
        (_claimed(16), "is not an array that NumPy can read"),
        (_claimed(1 << 50), "does not fit into memory"),
        (_claimed(1 << 80), "is not an array that NumPy can read"),
        (_archive(), "holds several arrays"),
    ],
)
def test_a_spoilt_array_is_one_sentence(
    file: str, tmp_path: Path, held: bytes, message: str
) -> None:
    (tmp_path / "x.npy").write_bytes(held)
    result = typed("run", file, "-k", "beyond", "-g", "64", "-b", f"x={tmp_path / 'x.npy'}")
    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise result.exception


def test_a_file_without_a_kernel_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "none.metal"
    path.write_text("inline int f() { return 1; }")
    result = typed("run", str(path), "-g", "4")
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("the file has no kernel to run")


def test_a_missing_file_is_one_sentence() -> None:
    result = typed("check", "missing.metal")
    with pytest.raises(InputError, match=r"missing\.metal cannot be read as text"):
        raise result.exception or AssertionError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-b", "x=f32[64]"), "--buffer x is given twice"),
        (("-b", "0=f32[64]"), "--buffer x is given twice, by name and by index"),
        (("--constant", "bias=1", "--constant", "bias=2"), "--constant bias is given twice"),
        (("-t", "²"), "expected a size such as 1024 or 32,8,1; found '²'"),
        (("-t", ""), "expected a size such as 1024 or 32,8,1; found ''"),
        (("-t", "2048"), "a threadgroup has at most 1024 threads, found 2048"),
        (("--threadgroup-bytes", "t=1.5"), "expected a whole number of bytes, found '1.5'"),
        (("--threadgroup-bytes", "t=nan"), "expected a whole number of bytes, found 'nan'"),
        (("--threadgroup-bytes", "t=8"), "beyond has no threadgroup argument 't'"),
        (("--save", "/proc/nowhere"), "/proc/nowhere cannot be written"),
    ],
)
def test_what_was_typed_wrongly_is_one_sentence(
    file: str, arguments: tuple[str, ...], expected: str
) -> None:
    result = typed("run", file, "-k", "beyond", "-g", "32", *BUFFERS, *arguments)
    assert isinstance(result.exception, KernelwrightError)
    assert expected in str(result.exception)


def test_an_array_that_memory_does_not_hold_is_one_sentence(file: str) -> None:
    result = typed("run", file, "-k", "beyond", "-g", "32", "-b", "x=f32[999999999999999]")
    assert isinstance(result.exception, InputError)
    assert "f32[999999999999999] does not fit into memory" in str(result.exception)


@pytest.mark.parametrize("arguments", [("--seed", "-1"), ("-I", "/nonexistent")])
def test_an_option_out_of_range_is_a_usage_error(file: str, arguments: tuple[str, ...]) -> None:
    result = typed("run", file, "-k", "beyond", "-g", "32", *BUFFERS, *arguments)
    assert result.exit_code == 2
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_profile_says_that_it_was_sampled_unless_it_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "copy.metal"
    path.write_text(
        "kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],\n"
        "              uint i [[thread_position_in_grid]]) { y[i] = x[i]; }\n"
    )
    size = ("-g", "32768", "-t", "32", "-b", "x=f32[32768]", "-b", "y=f32[32768]")
    sampled = typed("profile", str(path), *size)
    assert re.search(r"sampled: \d+ of 1,024 threadgroups, sums ±0\.\d%", sampled.output)
    assert "sampled" not in typed("profile", str(path), *size, "--exact").output


def test_profile_of_an_unknown_chip_is_a_usage_error(file: str) -> None:
    result = typed("profile", file, "-k", "saxpy", "-g", "64", *BUFFERS, "--chip", "m9")

    assert isinstance(result.exception, UsageError)
    assert "there is no profile of a chip 'm9'" in str(result.exception)
