"""`kernelwright.export` exports from a program or notebook by the rules of the command."""

import importlib
import importlib.util
import linecache
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol, cast

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from typer.testing import CliRunner

import kernelwright as kw
from kernelwright.agents.protocols import Proposal
from kernelwright.campaign import load_subjects
from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import StageResult
from kernelwright.ir import canonicalize, capture_labelled
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.simulator import toolchain
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition
from kernelwright.runtime.export import FormatName, KernelFormatName
from kernelwright.service.commands import app
from kernelwright.service.export_function import ExportResult
from kernelwright.service.exporting import Exported
from kernelwright.service.python.target import function_subjects
from kernelwright.store import Environment, KernelStore, NewTrial, Rank

INFO = DeviceInfo(name="simulator", chip="x86_64", runtime="ziglang 0.17.0", measures_time=False)
TYPE = "f32[8,64]"
_MODEL = """\
import mlx.core as mx


class Gate:
    def __init__(self):
        self.scale = mx.full((64,), 2.0)

    def first(self, x):
        return mx.sigmoid(x) * x + 1

    def second(self, x):
        return mx.exp(x) * x - 1

    def scaled(self, x, *, factor=3.0):
        return mx.sigmoid(x * self.scale) * factor


gate = Gate()
gates = [Gate(), Gate()]
gates[1].scale = mx.full((64,), 0.5)
short = gates[1].scaled
named = gate.scaled


def gated(x, factor=2.0):
    return mx.sigmoid(x) * x * factor


def gate_of(factor):
    def made(x):
        return mx.sigmoid(x) * x * factor

    return made
"""


def _recorded(
    store: str,
    function: object,
    status: Status = Status.CORRECT,
    arrays: tuple[mx.array, ...] = (),
) -> None:
    """Store a kernel for a function, judged with a status."""
    assert callable(function)
    whole = canonicalize(capture_labelled(function, arrays or (mx.zeros((8, 64)),), {}))
    graph = partition(whole)[0].extract()
    task = Task(graph, "gated")
    program = lower(graph, schedules(graph, INFO)[0])
    environment = Environment(device=INFO, mlx="0.32.4", system="Linux x86_64")
    with KernelStore(store) as opened:
        campaign = opened.begin_campaign(name="test", spec="{}", environment=environment)
        proposal = Proposal(program=program, author="offline", idea="rows")
        trial = opened.add_trial(
            NewTrial(campaign.id, task, proposal.program, proposal.author, proposal.idea)
        )
        held = status is Status.CORRECT
        stages = tuple(
            StageResult(stage=stage, passed=held, summary="")
            for stage in (Stage.CORRECTNESS, Stage.HIDDEN)
        )
        verdict = Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=INFO,
            status=status,
            summary="output 0 is off by 3",
            stages=stages,
            cases=14,
        )
        rank = Rank(kind="predicted", value=1.0) if held else None
        evaluation = opened.record(trial.id, verdict, rank=rank)
        if held:
            opened.promote(evaluation)


@pytest.fixture
def model(tmp_path: Path) -> ModuleType:
    file = tmp_path / "model.py"
    file.write_text(_MODEL)
    return _imported(file)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "kernels.db")


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"api_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_function_is_exported_from_a_program(
    model: ModuleType, store: str, tmp_path: Path
) -> None:
    _recorded(store, model.gated)
    folder = tmp_path / "vendored"
    result = kw.export(model.gated, folder, inputs=[TYPE], store=store, force=True)
    assert isinstance(result, ExportResult)
    (written,) = result.written
    assert (written.name, written.use) == ("gated", "from gated import gated")
    assert {Path(f).name for f in written.files} == {
        "VERIFICATION.md",
        "gated.py",
        "test_gated.py",
    }
    assert result.is_verified
    assert not result.left_out
    x = mx.random.normal((3, 64))
    exported = _imported(folder / "gated.py")
    assert mx.array_equal(exported.gated(x, factor=3.0), model.gated(x, factor=3.0)).item()


@pytest.mark.skipif(mx.metal.is_available(), reason="a GPU compares the kernels itself")
def test_a_missing_compiler_is_no_difference(
    store: str, model: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _recorded(store, model.gated)
    toolchain.compiler_path.cache_clear()
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(
        DeviceError,
        match=r"^an export is compared .*the simulator compiles .*kernelwright\[search\]",
    ):
        kw.export(model.gated, tmp_path / "out", inputs=[TYPE], store=store, force=True)


def test_methods_of_one_object_are_modules_of_their_own(
    model: ModuleType, store: str, tmp_path: Path
) -> None:
    folder = tmp_path / "vendored"
    for name in ("first", "second"):
        method = getattr(model.gate, name)
        _recorded(store, method)
        (written,) = kw.export(method, folder, inputs=[TYPE], store=store, force=True).written
        assert written.name == f"gate_{name}"
        assert written.use == f"from gate_{name} import gate"
        x = mx.random.normal((3, 64))
        exported = _imported(folder / f"gate_{name}.py")
        assert mx.array_equal(getattr(exported.gate, name)(x), method(x)).item()


def test_functions_that_one_line_makes_are_exported_side_by_side(
    model: ModuleType, store: str, tmp_path: Path
) -> None:
    names = []
    for factor in (2.0, 3.0, 2.0):
        made = model.gate_of(factor)
        _recorded(store, made)
        (written,) = kw.export(
            made, tmp_path / "out", inputs=[TYPE], store=store, force=True
        ).written
        names.append(written.name)
    assert names == ["made", "made_2", "made"]
    x = mx.random.normal((3, 64))
    exported = _imported(tmp_path / "out" / "made_2.py")
    assert mx.array_equal(exported.made(x), model.gate_of(3.0)(x)).item()


@pytest.mark.parametrize(
    ("name", "types", "why"),
    [
        ("product", ["f32[64,256]", "f32[256,64]"], "MLX keeps every op of it"),
        ("given", ["f32[8]"], "it computes nothing and returns what it was given"),
    ],
)
def test_a_function_whose_search_found_no_task_is_told_so(
    store: str, tmp_path: Path, name: str, types: list[str], why: str
) -> None:
    file = tmp_path / "products.py"
    file.write_text("def product(x, y):\n    return x @ y\n\n\ndef given(x):\n    return x\n")
    inputs = [text for type_ in types for text in ("-i", type_)]
    search = ["search", f"{file}:{name}", *inputs, "--store", store, "--device", "simulator", "-q"]
    CliRunner().invoke(app, search)
    for target in (f"{file}:{name}", getattr(_imported(file), name)):
        with pytest.raises(InputError, match=f"{name} has no kernel to export: {why}"):
            kw.export(target, tmp_path / "out", inputs=types, store=store)


def test_a_cell_of_a_notebook_is_exported(store: str, tmp_path: Path) -> None:
    text = "def celled(x):\n    return mx.exp(x) * SHIFT + 1\n"
    name = "<ipython-input-3-5b7d>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    main = sys.modules["__main__"]
    space = vars(main)
    space |= {"mx": mx, "SHIFT": mx.array([1.5])}
    try:
        exec(compile(text, name, "exec"), space)
        _recorded(store, space["celled"])
        kw.export(space["celled"], tmp_path / "out", inputs=[TYPE], store=store, force=True)
        x = mx.random.normal((2, 64))
        exported = _imported(tmp_path / "out" / "celled.py")
        assert mx.array_equal(exported.celled(x), space["celled"](x)).item()
        # The cell is run again, edited, and has another name then.
        edited = text.replace("+ 1", "+ 1  # one")
        name = "<ipython-input-4-5b7d>"
        linecache.cache[name] = (len(edited), None, edited.splitlines(keepends=True), name)
        exec(compile(edited, name, "exec"), space)
        kw.export(space["celled"], tmp_path / "out", inputs=[TYPE], store=store, force=True)
        assert {f.name for f in (tmp_path / "out").glob("c*.py")} == {"celled.py"}
    finally:
        for key in ("celled", "SHIFT", "mx"):
            space.pop(key, None)


@pytest.mark.parametrize(
    ("target", "inputs", "message"),
    [
        ("gated", [], r"expected inputs for gated, found none"),
        ("Gate", [TYPE], r"expected a function, a method or an object .* the class Gate"),
        (None, [TYPE], r"expected a function, .* found None"),
    ],
)
def test_what_cannot_be_exported_is_said(
    model: ModuleType,
    store: str,
    tmp_path: Path,
    target: str | None,
    inputs: list[str],
    message: str,
) -> None:
    KernelStore(store).close()
    value = None if target is None else getattr(model, target)
    with pytest.raises(InputError, match=message):
        kw.export(value, tmp_path / "out", inputs=inputs, store=store)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_refused_candidates_are_told_with_where_to_look(
    model: ModuleType, store: str, tmp_path: Path
) -> None:
    _recorded(store, model.gated, Status.WRONG)
    message = r"1 candidate was judged and refused, the last as wrong \(output 0 is off by 3\); see"
    with pytest.raises(InputError, match=message):
        kw.export(model.gated, tmp_path / "out", inputs=[TYPE], store=store)
    target = f"{model.__file__}:gated"
    arguments = ["export", target, "-i", TYPE, "-o", str(tmp_path / "out"), "--store", store]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "kernelwright history --task" in " ".join(str(done.exception or done.output).split())


_ELSEWHERE = """\
import sys
import mlx.core as mx
from {name} import {name}
x = mx.load(sys.argv[1])["x"]
assert callable({name}) and not hasattr({name}, "scale"), type({name})
mx.save_safetensors(sys.argv[2], {{"y": {name}(x), "z": {name}(x, factor=2.0)}})
"""


@pytest.mark.parametrize("name", ["short", "named"])
def test_a_method_with_a_name_of_its_own_is_imported_by_it_in_another_folder(
    name: str, model: ModuleType, store: str, tmp_path: Path
) -> None:
    method = getattr(model, name)

    def searched(x: mx.array, scale: mx.array) -> mx.array:
        return mx.sigmoid(x * scale) * 3.0

    # The search had the object's array as an input; so has this kernel.
    _recorded(store, searched, arrays=(mx.zeros((8, 64)), mx.zeros((64,))))
    folder = tmp_path / "vendored"
    target = f"{tmp_path / 'model.py'}:{name}"
    (written,) = kw.export(target, folder, inputs=[TYPE], store=store, force=True).written
    assert (written.name, written.use) == (name, f"from {name} import {name}")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    (tmp_path / "model.py").rename(tmp_path / "hidden.txt")
    x = mx.random.normal((3, 64))
    mx.save_safetensors(str(tmp_path / "x.safetensors"), {"x": x})
    script = elsewhere / "use.py"
    script.write_text(_ELSEWHERE.format(name=name))
    places = [str(tmp_path / f) for f in ("x.safetensors", "y.safetensors")]
    done = subprocess.run(
        [sys.executable, str(script), *places], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = mx.load(places[1])
    assert isinstance(made, dict)
    assert mx.allclose(made["y"], method(x)).item()
    assert mx.allclose(made["z"], method(x, factor=2.0)).item()


def test_no_file_that_is_written_says_where_the_author_works(
    model: ModuleType, store: str, tmp_path: Path
) -> None:
    _recorded(store, model.gated)
    folder = tmp_path / "vendored"
    for _ in range(2):
        kw.export(model.gated, folder, inputs=[TYPE], store=store, force=True)
    written = [f for f in folder.rglob("*") if f.is_file()]
    assert {f.name for f in written} >= {"gated.py", "kernelwright.json"}
    assert "gated_2.py" not in {f.name for f in written}
    assert not [f.name for f in written if str(tmp_path).encode() in f.read_bytes()]


@pytest.mark.parametrize(
    ("format_name", "file"),
    [
        ("cpp", "gated.cpp"),
        ("swift", "Package.swift"),
        ("metal", "gated.metal"),
        ("mlxfn", "gated.mlxfn"),
    ],
)
def test_formats_without_python_take_the_kernels_of_a_function(
    format_name: FormatName, file: str, model: ModuleType, store: str, tmp_path: Path
) -> None:
    _recorded(store, model.gated)
    target = f"{model.__file__}:gated"
    (written,) = kw.export(
        target, tmp_path / "out", inputs=[TYPE], store=store, force=True, format_name=format_name
    ).written
    assert file in {Path(f).name for f in written.files}
    # The kernel is all that the function does.
    assert not written.remarks


class _ById(Protocol):
    def __call__(
        self, function: Callable[..., object], format_name: KernelFormatName = "module"
    ) -> Exported: ...


@pytest.fixture
def exported_by_id(store: str, tmp_path: Path) -> _ById:
    def export(
        function: Callable[..., object], format_name: KernelFormatName = "module"
    ) -> Exported:
        _recorded(store, function)
        with KernelStore(store) as opened:
            (champion,) = opened.best()
        done = kw.export(
            champion.candidate_id,
            tmp_path / "out",
            format_name=format_name,
            name="taken",
            store=store,
            force=True,
        )
        (written,) = done.written
        return written

    return export


def _taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(tmp_path / "out"))
    for name in [n for n in sys.modules if n.partition(".")[0] == "taken"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("taken")


class _Moments(NamedTuple):
    spread: mx.array
    shifted: mx.array


def _swapped(x: mx.array) -> tuple[mx.array, mx.array]:
    shifted = x - mx.mean(x, axis=-1, keepdims=True)
    return mx.mean(mx.square(shifted), axis=-1), shifted


def _moments(x: mx.array) -> _Moments:
    return _Moments(*_swapped(x))


def _nested(x: mx.array) -> dict[str, object]:
    spread, shifted = _swapped(x)
    return {"spread": spread, "rest": [shifted, None, 3], "again": spread}


def _lone(x: mx.array) -> dict[str, mx.array]:
    return {"spread": mx.mean(mx.square(x), axis=-1)}


def _flat(tree: object) -> list[tuple[str, object]]:
    return cast("list[tuple[str, object]]", tree_flatten(tree))


def _with_views(x: mx.array) -> dict[str, object]:
    return {"last": x[:, -1], "mean": [mx.mean(mx.square(x), axis=-1), x], "turned": x.T}


@pytest.mark.parametrize("format_name", ["module", "package"])
@pytest.mark.parametrize("function", [_swapped, _moments, _nested, _lone, _with_views])
def test_a_kernel_by_its_id_returns_what_its_function_does(
    exported_by_id: _ById,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[[mx.array], object],
    format_name: KernelFormatName,
) -> None:
    written = exported_by_id(function, format_name)
    assert not written.remarks
    module = _taken(tmp_path, monkeypatch)
    x = mx.random.normal((8, 64))
    found, wanted = dict(_flat(module.taken(x))), dict(_flat(function(x)))
    # Reference and kernel end in the same lines; a GPU that runs Metal is not needed to see them.
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        given = found[key]
        assert type(given) is type(value)
        if isinstance(value, mx.array) and isinstance(given, mx.array):
            assert given.shape == value.shape
            assert mx.allclose(given, value, atol=1e-6).item()
        else:
            assert given == value


def test_the_launch_of_a_kernel_by_its_id_ends_in_its_functions_results(
    exported_by_id: _ById, tmp_path: Path
) -> None:
    exported_by_id(_nested)
    text = (tmp_path / "out" / "taken.py").read_text()
    launch = text.partition("def taken(")[2].partition("\ndef ")[0]
    spread = "mx.reshape(a_out1, (x.shape[0],))"
    assert f"t1 = {spread}" in launch or spread in launch
    assert '"rest": [a_out0, None, 3]' in launch.replace("'", '"')


def test_the_launch_of_a_kernel_by_its_id_returns_views_of_inputs(
    exported_by_id: _ById, tmp_path: Path
) -> None:
    exported_by_id(_with_views)
    text = (tmp_path / "out" / "taken.py").read_text()
    launch = text.partition("def taken(")[2].partition("\ndef ")[0]
    assert ", x]" in launch
    assert "x.T" in launch or "mx.transpose(x" in launch
    proof = (tmp_path / "out" / "VERIFICATION.md").read_text()
    assert "its function returns inputs, or views of them, too: `f32[8]`, `f32[8,64]`" in proof


def test_a_format_without_python_says_that_it_leaves_views_of_inputs(
    exported_by_id: _ById,
) -> None:
    (remark,) = exported_by_id(_with_views, "cpp").remarks
    assert "in other shapes, [8], and inputs, or views of them, which this format leaves" in remark


@pytest.mark.parametrize("format_name", ["module", "package"])
def test_a_kernel_by_its_id_says_which_results_of_its_function_it_lacks(
    exported_by_id: _ById, tmp_path: Path, format_name: KernelFormatName
) -> None:
    def part(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        spread = mx.mean(mx.square(x), axis=-1, keepdims=True)
        return mx.sort(x, axis=0), spread, x.T

    written = exported_by_id(part, format_name)
    lacks = "arrays 1 and 3 of what its function returns"
    (remark,) = written.remarks
    assert f"does not return {lacks}" in remark
    assert f"does not give {lacks}" in (tmp_path / "out" / "VERIFICATION.md").read_text()
    module = "taken.py" if format_name == "module" else "taken/kernel_1.py"
    assert f"It does not return {lacks}." in (tmp_path / "out" / module).read_text()


@pytest.mark.parametrize("function", [_nested, _with_views])
def test_the_tests_of_a_kernel_by_its_id_pass(
    exported_by_id: _ById, tmp_path: Path, function: Callable[[mx.array], object]
) -> None:
    exported_by_id(function)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_taken.py"],
        cwd=tmp_path / "out",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_a_part_of_a_function_by_its_id_says_that_it_gives_more(exported_by_id: _ById) -> None:
    def part(x: mx.array) -> tuple[mx.array, mx.array]:
        shifted = x - mx.mean(x, axis=-1, keepdims=True)
        return mx.mean(mx.square(shifted), axis=-1, keepdims=True), mx.sort(shifted, axis=0)

    written = exported_by_id(part)
    (remark,) = written.remarks
    assert "returns 2 results, those of its function first: f32[8,1], f32[8,64]" in remark


def test_a_format_without_python_says_which_shapes_it_leaves(exported_by_id: _ById) -> None:
    written = exported_by_id(_lone, "cpp")
    (remark,) = written.remarks
    assert "in other shapes, [8], which this format leaves to you" in remark


_STEP = """\
from typing import NamedTuple, Protocol, cast
import mlx.core as mx


class Step(NamedTuple):
    value: mx.array


def stepped(x) -> Step:
    return Step(mx.sigmoid(x) * x - 2)
"""


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"])
def test_annotations_are_named_as_the_user_wrote_them(
    first: str, store: str, tmp_path: Path
) -> None:
    file = tmp_path / "steps.py"
    file.write_text(first + _STEP)
    _recorded(store, _imported(file).stepped)
    folder = tmp_path / "out"
    kw.export(f"{file}:stepped", folder, inputs=[TYPE], store=store, force=True)
    assert "-> Step" in (folder / "VERIFICATION.md").read_text()
    assert not [f for f in folder.iterdir() if b"kernelwright_subject" in f.read_bytes()]


_BODIES = """\
from dataclasses import dataclass
import mlx.core as mx


@dataclass(frozen=True)
class Bodies:
    place: mx.array
    speed: mx.array


def moved(bodies, *, dt=0.5) -> Bodies:
    return Bodies(mx.sigmoid(bodies.place) * bodies.speed * dt, bodies.speed)


def nested(state):
    return {"sum": mx.sigmoid(state["a"]) * state["more"][0] + state["factor"]}
"""


@pytest.fixture
def bodies(tmp_path: Path) -> ModuleType:
    file = tmp_path / "bodies.py"
    file.write_text(_BODIES)
    return _imported(file)


def test_a_function_of_a_record_alone_is_exported(
    bodies: ModuleType, store: str, tmp_path: Path
) -> None:
    arrays = bodies.Bodies(mx.ones((8, 64)), mx.ones((8, 64)))
    _recorded(store, bodies.moved, arrays=(arrays,))
    folder = tmp_path / "out"
    result = kw.export(bodies.moved, folder, inputs=[arrays], store=store, force=True)
    assert result.is_verified
    exported = _imported(folder / "moved.py")
    assert exported.moved.serves(arrays)
    assert exported.moved.serves(exported.Bodies(mx.ones((8, 64)), mx.ones((8, 64))))
    assert not exported.moved.serves(bodies.Bodies(mx.ones((3, 64)), mx.ones((3, 64))))


def test_nests_that_were_searched_are_exported_as_such(
    bodies: ModuleType, store: str, tmp_path: Path
) -> None:
    state = {"a": mx.ones((8, 64)), "more": [mx.ones((8, 64))], "factor": 2.0}
    (searched,) = function_subjects(bodies.nested, [state], lambda origin: ())
    (again,) = function_subjects(bodies.nested, None, lambda origin: (searched.written,))
    assert again.written == searched.written
    _recorded(store, bodies.nested, arrays=again.inputs)  # type: ignore[arg-type]
    for number, inputs in enumerate(([state], searched.written)):
        folder = tmp_path / f"out{number}"
        assert kw.export(bodies.nested, folder, inputs=inputs, store=store, force=True).is_verified


def test_a_function_of_a_package_is_searched_under_its_modules_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_of_tests").mkdir()
    (tmp_path / "shop_of_tests" / "__init__.py").touch()
    file = tmp_path / "shop_of_tests" / "price.py"
    file.write_text(_BODIES)
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("shop_of_tests.price").nested
    (found,) = function_subjects(function, ["f32[8]"], lambda origin: ())
    assert found.place == found.origin == "shop_of_tests.price:nested"
    assert found.origins == (found.origin, f"{file}:nested")
    (by_file,) = load_subjects(f"{file}:nested", ["f32[8]"])
    assert by_file.origins == found.origins[::-1]


def test_functions_that_cannot_be_exported_are_each_named_once(store: str, tmp_path: Path) -> None:
    KernelStore(store).close()
    file = tmp_path / "two.py"
    example = '@kw.example("f16[4,4]")\n'
    file.write_text(
        "import kernelwright as kw\nimport mlx.core as mx\n\n"
        f"{example}def first(x):\n    return mx.exp(x)\n\n"
        f"{example}def second(x):\n    return mx.sin(x)\n"
    )
    with pytest.raises(InputError) as told:
        kw.export(file, tmp_path / "out", store=store)
    head, *reasons = str(told.value).splitlines()
    assert head == "nothing was written:"
    assert [reason.split(":")[0].strip() for reason in reasons] == ["first", "second"]
