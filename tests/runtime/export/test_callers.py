"""Callers in other languages are reviewed as golden files, and compiled where that can be."""

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.runtime.export import FormatName, export_as
from kernelwright.runtime.export.function.variant import Lookup
from kernelwright.store import CandidateDetail

Recorder = Callable[..., CandidateDetail]
GOLDEN = Path(__file__).parents[2] / "golden" / "export"
INCLUDE = Path(str(mx.__file__)).parent / "include"
LIBRARIES = sorted((INCLUDE.parent / "lib").glob("libmlx.*"))
COMPILER = shutil.which("c++")
CMAKE = shutil.which("cmake")


@pytest.mark.parametrize("format_name", ["swift", "cpp"])
def test_the_caller_is_as_reviewed(
    recorded: Recorder, format_name: FormatName, pytestconfig: pytest.Config
) -> None:
    export = export_as(format_name, [recorded(mx.zeros((8, 64), mx.float16))])
    golden = GOLDEN / Path(export.files[0].name).name
    if pytestconfig.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(export.files[0].text)
    assert export.files[0].text == golden.read_text()


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.skipif(not (INCLUDE / "mlx" / "mlx.h").exists(), reason="needs MLX's headers")
@pytest.mark.parametrize("init_value", [None, 1.5, -math.inf])
@pytest.mark.sampled(1)
def test_the_cpp_caller_compiles(
    recorded: Recorder, tmp_path: Path, init_value: float | None
) -> None:
    detail = recorded(mx.zeros((8, 64), mx.float16))
    if init_value is not None:
        options = {"init_value": init_value, "template": {"T": Dtype.BOOL, "N": 4, "B": True}}
        kernel = detail.program.kernels[0].model_copy(update=options)
        program = detail.program.model_copy(update={"kernels": (kernel,)})
        detail = detail.model_copy(update={"program": program})
    export_as("cpp", [detail]).write(tmp_path)
    file = str(tmp_path / "scaled_softmax.cpp")
    _done([str(COMPILER), "-std=c++20", "-fsyntax-only", "-w", "-I", str(INCLUDE), file])


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None or CMAKE is None, reason="needs a C++ compiler and CMake")
@pytest.mark.skipif(not LIBRARIES, reason="needs MLX's library")
def test_the_cpp_project_builds_links_and_passes_its_tests(
    recorded: Recorder, tmp_path: Path
) -> None:
    source, build = tmp_path / "source", tmp_path / "build"
    export_as("cpp", [recorded(mx.zeros((8, 64), mx.float16))]).write(source)
    _done([str(CMAKE), "-S", str(source), "-B", str(build), f"-DMLX_ROOT={INCLUDE.parent}"])
    _done([str(CMAKE), "--build", str(build)])
    _done([str(build / "test_scaled_softmax")])


def _done(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_swift_package_parses(recorded: Recorder) -> None:
    tree_sitter = pytest.importorskip("tree_sitter", reason="no parser of Swift is installed")
    swift = pytest.importorskip("tree_sitter_swift", reason="no parser of Swift is installed")
    parser = tree_sitter.Parser(tree_sitter.Language(swift.language()))
    export = export_as("swift", [recorded(mx.zeros((8, 64), mx.float16))])
    texts = [f.text for f in export.files if f.name.endswith(".swift")]
    assert len(texts) == 3
    # A brace of a kernel's text is no brace of Swift's; the last one is.
    assert parser.parse("".join(texts[0].rpartition("}")[::2]).encode()).root_node.has_error
    for text in texts:
        assert not parser.parse(text.encode()).root_node.has_error, text


def test_the_swift_package_takes_arrays_by_name_and_traps_nowhere(recorded: Recorder) -> None:
    export = export_as("swift", [recorded(mx.zeros((8, 64), mx.float16))])
    files = {f.name: f.text for f in export.files}
    assert set(files) == {
        "Package.swift",
        "Sources/ScaledSoftmax/scaled_softmax.swift",
        "Tests/ScaledSoftmaxTests/ScaledSoftmaxTests.swift",
        "LICENSE",
        "VERIFICATION.md",
    }
    source = files["Sources/ScaledSoftmax/scaled_softmax.swift"]
    assert "public func scaled_softmax(_ x: MLXArray) -> MLXArray? {" in source
    assert "return try fallback(x)" in source
    assert "precondition" not in source
    assert "not compiled" in files["VERIFICATION.md"]
    tests = files["Tests/ScaledSoftmaxTests/ScaledSoftmaxTests.swift"]
    assert "(511, " in tests


def test_the_examples_of_a_swift_package_hold_the_integers_that_inputs_take(
    kernels_of: Callable[..., Lookup],
) -> None:
    graph = canonicalize(
        capture(
            lambda table, ids: mx.exp(table[ids]) + 1, mx.zeros((9, 4)), mx.zeros((8,), mx.int32)
        )
    )
    (detail,) = kernels_of(lambda _: ("m4-pro",))([graph])[graph.fingerprint]
    export = export_as("swift", [detail])
    tests = next(f.text for f in export.files if f.name.endswith("Tests.swift"))
    assert "example([9, 4], .float32, 0)" in tests
    assert "example([8], .int32, 1, (0, 1, 9))" in tests
