"""A package of a function holds all its kernels: regions, shapes, dtypes and chips."""

import importlib
import importlib.util
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.ir import Graph
from kernelwright.runtime.export.format import ExportedModule
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.export import Layout, export_target
from kernelwright.runtime.export.function.variant import Lookup

KernelsOf = Callable[[Callable[[Graph], tuple[str, ...]]], Lookup]
_USER = """\
import mlx.core as mx


def mixed(x, w, scale=0.5):
    weights = mx.softmax(x * scale, axis=-1)
    y = weights @ w
    return y * mx.rsqrt(mx.mean(y * y, axis=-1, keepdims=True) + 1e-5)
"""
ONE = ExampleCall((mx.zeros((4, 32)), mx.zeros((32, 32))), {})
TWO = ExampleCall((mx.zeros((6, 64)), mx.zeros((64, 32))), {})
HALF = ExampleCall((mx.zeros((4, 32), mx.float16), mx.zeros((32, 32), mx.float16)), {})


def _chips(task: Graph) -> tuple[str, ...]:
    # The softmax has a kernel for both chips, the norm for one of them.
    is_softmax = any(node.op == "softmax" for node in task.nodes)
    return ("Apple M1", "Apple M4") if is_softmax else ("Apple M4",)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[ModuleType]:
    file = tmp_path / "package_of_a_test.py"
    file.write_text(_USER)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[file.stem]


def _exported(user: ModuleType, lookup: Lookup, layout: Layout = "package") -> ExportedModule:
    return export_target(
        user.mixed,
        "mixed",
        [ONE, TWO, HALF],
        lookup,
        identity="a test",
        layout=layout,
        force=True,
    )


def test_it_dispatches_by_shape_dtype_and_chip(
    user: ModuleType, kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    exported = _exported(user, kernels_of(_chips))
    exported.write(source)
    told = (source / "VERIFICATION.md").read_text()
    assert "differs" not in told
    assert told.count("- [x] kernels on the ") >= 9
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("mixed-0.1.0-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    assert {"mixed/py.typed", "mixed/__init__.pyi", "mixed/__init__.py"} <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    monkeypatch.syspath_prepend(str(site))
    package = importlib.import_module("mixed")
    try:
        _dispatches(package, monkeypatch)
    finally:
        del sys.modules["mixed"]


def _dispatches(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (ONE, TWO, HALF):
        assert package.mixed.serves(*call.args)
        assert package.mixed.serves(*call.args, scale=0.5)
        assert not package.mixed.serves(*call.args, 0.25)
    assert not package.mixed.serves(mx.zeros((5, 48)), mx.zeros((48, 32)))
    # Three calls on two chips; both kernels take part on both.
    variants = [v for found in package._VARIANTS.values() for v in found]
    assert sorted(v.chip for v in variants) == ["Apple M1"] * 3 + ["Apple M4"] * 3
    x, w = mx.random.normal((5, 48), key=mx.random.key(1)), mx.ones((48, 32))
    made = package.mixed(x, w)
    assert mx.array_equal(made, package.mixed.reference(x, w)).item()
    chosen: list[str] = []
    for variant in variants:

        def noted(*arrays: mx.array, chip: str = variant.chip) -> list[mx.array]:
            chosen.append(chip)
            return [arrays[0]]

        monkeypatch.setattr(variant, "run", noted)
    monkeypatch.setattr(package, "_runs_metal", lambda: True)
    for chip in ("Apple M1", "Apple M4"):
        monkeypatch.setattr(package, "_chip", lambda chip=chip: chip)
        package.mixed(*ONE.args)
    assert chosen == ["Apple M1", "Apple M4"]


def test_its_own_tests_pass_and_its_types_hold(
    user: ModuleType, kernels_of: KernelsOf, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    _exported(user, kernels_of(_chips)).write(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    stub = (source / "mixed" / "__init__.pyi").read_text()
    assert "def __call__(x: Any, w: Any, scale: Any = ...) -> mx.array: ..." in stub
    compile(stub, "stub", "exec")


def test_several_packages_share_an_index(
    user: ModuleType, kernels_of: KernelsOf, tmp_path: Path
) -> None:
    folder = tmp_path / "vendored"
    first = _exported(user, kernels_of(_chips)).in_its_own_folder()
    first.write(folder)
    other = first.model_copy(update={"name": "other", "identity": "another"})
    files = tuple(
        f.model_copy(update={"name": f.name.replace("mixed/", "other/")}) for f in first.files
    )
    other.model_copy(update={"files": files}).write(folder)
    assert {p.name for p in folder.iterdir()} == {
        "VERIFICATION.md",
        "kernelwright.json",
        "mixed",
        "other",
    }
    told = (folder / "VERIFICATION.md").read_text()
    assert "`mixed (package)`" in told
    assert "`other (package)`" in told
    assert (folder / "mixed" / "VERIFICATION.md").exists()


def test_as_a_hugging_face_repository_it_loads_under_its_id(
    user: ModuleType, kernels_of: KernelsOf, tmp_path: Path
) -> None:
    exported = _exported(user, kernels_of(_chips), "huggingface")
    assert exported.use == 'mixed = kernels.get_local_kernel(Path("FOLDER")).mixed'
    exported.write(tmp_path)
    build = tmp_path / "build" / "torch-universal"
    metadata = json.loads((build / "metadata.json").read_text())
    # What `kernels` 0.17 demands of a build's metadata.
    assert {"id", "name", "version", "license", "python-depends", "backend"} == set(metadata)
    assert metadata["id"].isidentifier()
    assert (tmp_path / "README.md").read_text().startswith("---\nlibrary_name: kernels\n")
    assert not (tmp_path / "pyproject.toml").exists()
    # It imports a build's `__init__.py` under the id, beside other builds of the same function.
    spec = importlib.util.spec_from_file_location(metadata["id"], build / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[metadata["id"]] = module
    try:
        spec.loader.exec_module(module)
        x, w = mx.ones((4, 32)), mx.zeros((32, 32))
        assert mx.array_equal(module.mixed(x, w), user.mixed(x, w)).item()
    finally:
        del sys.modules[metadata["id"]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_patch_gives_a_file_its_kernels_in_place(
    kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "repository" / "patched_models"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    # No line break at its end, and more that follows the function.
    (package / "mixer.py").write_text(_USER + "\n\ndef twice(x, w):\n    return mixed(x, w) * 2")
    monkeypatch.syspath_prepend(str(package.parent))
    module = importlib.import_module("patched_models.mixer")
    wanted = module.twice(mx.ones((4, 32)), mx.ones((32, 32)))
    exported = _exported(module, kernels_of(_chips), "patch")
    assert exported.use == "git apply FOLDER/mixed.patch"
    exported.write(tmp_path / "out")
    apply = ["git", "apply", "--verbose", str(tmp_path / "out" / "mixed.patch")]
    done = subprocess.run(
        apply,
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (package / "_mixer_mixed_kernels.py").exists()
    for name in [n for n in sys.modules if n.startswith("patched_models")]:
        monkeypatch.delitem(sys.modules, name)
    patched = importlib.import_module("patched_models.mixer")
    assert patched.mixed.serves(*ONE.args)
    assert mx.array_equal(patched.twice(mx.ones((4, 32)), mx.ones((32, 32))), wanted).item()


_EDITS = {
    "its own line": ("x * SCALE", "x * SCALE + 1"),
    "a constant": ("SCALE = 0.5", "SCALE = 0.75"),
    "a helper below it": ("return x\n", "return x * 3\n"),
}


@pytest.mark.parametrize("edit", [None, *_EDITS])
@pytest.mark.sampled(2)
def test_a_patched_function_that_was_edited_runs_as_it_is_written(
    edit: str | None, kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _USER.replace("scale=0.5", "scale=None").replace("x * scale", "helped(x * SCALE)")
    text = f"SCALE = 0.5\n{text}\n\ndef helped(x):\n    return x\n"
    name = f"edited_{abs(hash(edit))}"
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    _exported(importlib.import_module(name), kernels_of(_chips), "patch").write(tmp_path / "out")
    apply = ["git", "apply", str(tmp_path / "out" / "mixed.patch")]
    subprocess.run(apply, cwd=tmp_path, check=True)
    if edit is not None:
        old, new = _EDITS[edit]
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    monkeypatch.delitem(sys.modules, name)
    patched = importlib.import_module(name)
    assert patched.mixed.serves(*ONE.args) == (edit is None)
    arrays = mx.ones((4, 32)), mx.ones((32, 32))
    wanted = patched.mixed.reference(*arrays)
    assert mx.array_equal(patched.mixed(*arrays), wanted).item()


def test_a_patched_function_returns_objects_of_its_files_own_class(
    kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _USER.replace("return y", "return Mixed(y").replace("1e-5)", "1e-5), x)")
    text = f"from typing import NamedTuple\n{text}\n\nclass Mixed(NamedTuple):\n"
    text += "    first: object\n    second: object\n"
    (tmp_path / "mixes_into_a_class.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("mixes_into_a_class")
    _exported(module, kernels_of(_chips), "patch").write(tmp_path / "out")
    apply = ["git", "apply", str(tmp_path / "out" / "mixed.patch")]
    subprocess.run(apply, cwd=tmp_path, check=True)
    monkeypatch.delitem(sys.modules, "mixes_into_a_class")
    patched = importlib.import_module("mixes_into_a_class")
    made = patched.mixed(mx.ones((4, 32)), mx.ones((32, 32)))
    assert patched.mixed.serves(*ONE.args)
    assert type(made) is patched.Mixed
    beside = sys.modules["_mixes_into_a_class_mixed_kernels"]
    (variants, *_) = beside._VARIANTS.values()
    assert type(variants[0].nest(1, 2)) is patched.Mixed


def test_a_patched_function_notices_a_later_edit_of_a_table_that_it_reads(
    kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _USER.replace("scale=0.5", "scale=None").replace("x * scale", 'x * SCALES["x"]')
    (tmp_path / "scaled_by_its_file.py").write_text(f"SCALES = {{'x': 0.5}}\n{text}")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("scaled_by_its_file")
    _exported(module, kernels_of(_chips), "patch").write(tmp_path / "out")
    apply = ["git", "apply", str(tmp_path / "out" / "mixed.patch")]
    subprocess.run(apply, cwd=tmp_path, check=True)
    monkeypatch.delitem(sys.modules, "scaled_by_its_file")
    patched = importlib.import_module("scaled_by_its_file")
    assert patched.mixed.serves(*ONE.args)
    table = vars(patched)["SCALES"]
    table["x"] = 0.25
    assert not patched.mixed.serves(*ONE.args)
    table["x"] = 0.5
    assert patched.mixed.serves(*ONE.args)
    vars(patched)["SCALES"] = {"x": 0.25}
    assert not patched.mixed.serves(*ONE.args)


def test_a_patch_is_refused_where_nothing_tells_a_later_edit(
    kernels_of: KernelsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _USER.replace("scale=0.5", "scale=None").replace("x * scale", "x * float(SCALE)")
    text = f"from decimal import Decimal\n\nSCALE = Decimal(2)\n{text}"
    (tmp_path / "scaled_by_a_decimal.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("scaled_by_a_decimal")
    with pytest.raises(KernelwrightError, match="a copy of what mixed reads"):
        _exported(module, kernels_of(_chips), "patch")


def test_a_patch_is_refused_where_no_file_binds_the_function(kernels_of: KernelsOf) -> None:
    with pytest.raises(KernelwrightError, match="defined at the top level of a file"):
        export_target(
            lambda x, w: mx.softmax(x, axis=-1) @ w,
            "other",
            [ONE],
            kernels_of(_chips),
            identity="a test",
            layout="patch",
            force=True,
        )
