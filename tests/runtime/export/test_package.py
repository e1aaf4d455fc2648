"""A package builds, installs, dispatches over its kernels and differentiates."""

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.runtime.export import export_as
from kernelwright.store import CandidateDetail

Recorder = Callable[..., CandidateDetail]
HALF = mx.zeros((8, 64), mx.float16)
SINGLE = mx.zeros((4, 32), mx.float32)


@pytest.fixture
def installed(
    recorded: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """Build the wheel of a package of two kernels, without a network, and import it."""
    source, site = tmp_path / "source", tmp_path / "site"
    export_as("package", [recorded(HALF), recorded(SINGLE)]).write(source)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("scaled_softmax-0.1.0-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    yield importlib.import_module("scaled_softmax")
    for name in [n for n in sys.modules if n.split(".")[0] == "scaled_softmax"]:
        del sys.modules[name]


def test_the_wheel_computes_and_dispatches_by_dtype_shape_and_chip(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = mx.random.normal((4, 32), key=mx.random.key(1))
    with mx.stream(mx.cpu):
        assert mx.allclose(installed.scaled_softmax(x), mx.softmax(x * 0.5, axis=-1)).item()
    if not mx.metal.is_available():
        assert installed.serving(HALF) is None
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(installed, "_chip", lambda: "Apple M4")
    assert installed.serving(HALF).__name__.endswith("kernel_1")
    assert installed.serving(SINGLE).__name__.endswith("kernel_2")
    assert installed.serving(SINGLE.astype(mx.bfloat16)) is None
    # A kernel that was judged on this very chip goes first, whatever the order of the ids.
    twin = ("Apple M4", (mx.float16,), installed.kernel_1)
    other = ("Apple M1", (mx.float16,), installed.kernel_2)
    monkeypatch.setattr(installed.kernel_2, "_serves", lambda *_: True)
    monkeypatch.setattr(installed, "_VARIANTS", [other, twin])
    assert installed.serving(HALF) is installed.kernel_1


def test_a_kernel_has_the_derivatives_of_its_fallback(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel itself cannot run here; a function without a gradient stands in its place.
    monkeypatch.setattr(installed, "serving", lambda *_: installed.kernel_2)
    monkeypatch.setattr(
        installed.kernel_2,
        "scaled_softmax",
        lambda x: mx.stop_gradient(installed.kernel_2.reference(x)),
    )
    x, y = mx.random.normal((2, 4, 32), key=mx.random.key(2))
    wanted, found = installed.kernel_2.reference, installed.scaled_softmax
    with mx.stream(mx.cpu):
        a, b = (mx.grad(lambda x, f=f: (f(x) * y).sum())(x) for f in (found, wanted))
        assert mx.array_equal(a, b).item()
        assert mx.any(a != 0).item()
        (a,), (b,) = (mx.jvp(f, [x], [y])[1] for f in (found, wanted))
        assert mx.array_equal(a, b).item()
        batch = mx.stack([x, y])
        assert mx.array_equal(mx.vmap(found)(batch), mx.vmap(wanted)(batch)).item()


def test_its_own_tests_pass(recorded: Recorder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    export_as("package", [recorded(HALF), recorded(SINGLE)]).write(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    if not mx.metal.is_available():
        assert "6 passed" in done.stdout


def test_the_same_kernel_twice_is_refused(recorded: Recorder) -> None:
    detail = recorded(HALF)
    with pytest.raises(InputError, match="found one of them twice"):
        export_as("package", [detail, detail])
