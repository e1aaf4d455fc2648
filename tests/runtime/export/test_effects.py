"""An exported function has the effects of the original: arrays changed in place, and no others."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest
from typer.testing import CliRunner

from kernelwright.errors import InputError
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.export import _remarks
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.simulated import simulated_kernels
from kernelwright.service.commands import app

_IN_PLACE = """\
import mlx.core as mx


def residual(x, y, scale=2.0):
    x += y
    return mx.exp(x) * scale


def returned(x, y):
    x += y * 2
    return x


def nothing(x, y):
    x[...] = mx.tanh(x) * y


def row(cache, y):
    cache[1] = y[0] * 2 + mx.exp(y[1])
    return {"soft": mx.softmax(cache, axis=-1)}


def example_inputs():
    both = (mx.zeros((4, 8)), mx.zeros((4, 8)))
    return {"residual": both, "returned": both, "nothing": both, "row": both}
"""

_OTHERS = """\
import mlx.core as mx

STATE = mx.zeros((8,))
STEP = mx.array(0.0)
COUNT = 0
SEEN = []


def widened(x):
    z = mx.exp(x)
    x += mx.array([1.0])
    return z


def stepping(x):
    global STEP
    STEP += 1
    return mx.exp(x) * STEP


def counting(x):
    global COUNT
    COUNT = COUNT + 1
    return mx.exp(x) * 2


def noting(x):
    SEEN.append(1)
    return mx.exp(x) * 2
"""


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"effects_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Search and export the functions that change their arguments."""
    path = tmp_path_factory.mktemp("in_place")
    file, store = path / "user.py", str(path / "kernels.db")
    file.write_text(_IN_PLACE)
    _run("search", str(file), "--store", store, "--quiet", "--candidates", "1", "--repairs", "0")
    vendored = path / "vendored"
    told = _run("export", str(file), "-o", str(vendored), "--store", store, "--force", "--json")
    assert {e["name"] for e in json.loads(told[told.index("[") :])} == {
        "nothing",
        "residual",
        "returned",
        "row",
    }
    return path


@pytest.mark.skipif(mx.metal.is_available(), reason="the GPU computes within mx.compile")
def test_a_compiled_export_launches_what_a_call_launches(folder: Path) -> None:
    told = (folder / "vendored" / "VERIFICATION.md").read_text()
    assert told.count("as searched, mx.compile (1 launch, that of a call") == 4
    assert "not run" not in told.partition("## Verified")[0]


@pytest.mark.parametrize("name", ["residual", "returned", "nothing", "row"])
def test_what_is_changed_in_place_is_written_back(folder: Path, name: str) -> None:
    original = getattr(_imported(folder / "user.py"), name)
    with simulated_kernels(32768):
        module = _imported(folder / "vendored" / f"{name}.py")
    vars(module)["_runs_metal"] = lambda: True
    exported = getattr(module, name)
    arrays = [mx.random.normal((4, 8), key=mx.random.key(i)) for i in range(2)]
    (x, y), (u, v) = ([mx.array(a) for a in arrays] for _ in range(2))
    assert exported.serves(x, y)
    made, wanted = exported(x, y), original(u, v)
    assert (made is x) == (wanted is u)
    assert type(made) is type(wanted)
    assert mx.allclose(x, u, atol=1e-5).item()
    assert not mx.array_equal(u, arrays[0]).item()
    assert mx.array_equal(y, v).item()
    pairs = module._leaves(made), module._leaves(wanted)
    assert all(mx.allclose(a, b, atol=1e-5).item() for a, b in zip(*pairs, strict=True))
    # An array that is passed twice changes twice; kernels would see the one before.
    assert not exported.serves(x, x)


@pytest.mark.parametrize(
    ("name", "dtype", "line", "why"),
    [
        ("widened", mx.float16, 11, r"in place from f16\[4,8\] to f32\[4,8\]"),
        ("stepping", mx.float32, 17, "changes what it keeps"),
        ("counting", mx.float32, 23, "changes what it keeps"),
        ("noting", mx.float32, 28, "changes what it keeps"),
    ],
)
def test_other_effects_are_refused_with_the_line(
    tmp_path: Path, name: str, dtype: mx.Dtype, line: int, why: str
) -> None:
    file = tmp_path / "user.py"
    file.write_text(_OTHERS)
    user = _imported(file)
    call = ExampleCall((mx.zeros((4, 8), dtype),), {})
    with pytest.raises(InputError, match=rf"{why}.* \(.*user\.py:{line}\)"):
        export_function(
            getattr(user, name), name, [call], lambda tasks: {}, admits=lambda detail: True
        )
    assert (user.COUNT, user.SEEN, user.STEP.item()) == (0, [], 0)


def test_a_stream_of_the_cpu_is_said_not_to_be_kept() -> None:
    def streamed(x: mx.array) -> mx.array:
        return mx.softmax(mx.add(x, 1, stream=mx.cpu) * 2, axis=-1)

    (remark,) = _remarks(streamed, [ExampleCall((mx.zeros((4, 8)),), {})] * 2)
    assert "runs work on a stream of the CPU" in remark
    assert "it is not kept" in remark
