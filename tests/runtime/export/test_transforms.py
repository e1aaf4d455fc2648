"""What MLX's and Python's own wrappers return is carried as itself, not as what it wraps."""

import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.plan import partition
from kernelwright.runtime.calling import captured
from kernelwright.runtime.export.function import dispatch
from kernelwright.runtime.export.function.alone import ExampleCall, check_same_state
from kernelwright.runtime.export.function.differentiable import _differentiable
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.passed_call import _Call

_USER = """\
from functools import partial
import logging
import mlx.core as mx

LOG = logging.getLogger(__name__)
W = mx.linspace(0.5, 1.5, 8)


def one(x, w):
    return (x * w) * mx.rsqrt(mx.mean(x * x) + 1e-5)


def base(x, scale, bias=0.0):
    return mx.softmax(x * scale + bias, axis=-1)


def helper(x, w=W):
    return x * w


def logged(x):
    LOG.debug("never shown")
    return mx.softmax(x, axis=-1)


def by_helper(x):
    return mx.softmax(helper(x), axis=-1)


class Box:
    def __init__(self):
        self.scale = 2.0

    def scaled(self, x):
        return mx.softmax(x * self.scale, axis=-1)


def keyed(x, seed=0):
    return mx.softmax(x + mx.random.normal(x.shape, key=mx.random.key(seed)), axis=-1)


box = Box()
mapped = mx.vmap(one, in_axes=(0, None))
part = partial(base, scale=0.125, bias=1.0)
"""
ROWS = (mx.zeros((4, 8)),)
NAMES = {"mapped": (mx.zeros((4, 8)), mx.zeros((8,))), "part": ROWS, "by_helper": ROWS}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    file = tmp_path / "user_of_transforms.py"
    file.write_text(_USER)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_an_export_asks_for_the_kernels_that_a_search_finds(name: str, user: ModuleType) -> None:
    function, arrays = getattr(user, name), NAMES[name]
    asked: set[str] = set()

    def lookup(tasks: Sequence[Graph]) -> dict[str, list[object]]:
        asked.update(task.fingerprint for task in tasks)
        return {}

    with pytest.raises(InputError, match="expected a champion"):
        export_function(
            function,
            name,
            [ExampleCall(arrays, {})],
            lookup,  # type: ignore[arg-type]
            admits=lambda _: True,
        )
    whole = ir.gather_attention(ir.canonicalize(ir.capture(function, *arrays)))
    assert {region.extract().fingerprint for region in partition(whole)} <= asked


def test_a_log_is_refused_whatever_its_level(user: ModuleType) -> None:
    with pytest.raises(UnsupportedError, match=r"writes to a log .*user_of_transforms.py:\d+"):
        export_function(
            user.logged,
            "logged",
            [ExampleCall(ROWS, {})],
            lambda tasks: {},
            admits=lambda _: True,
        )


def test_an_optimized_vmap_is_traced_as_a_vmap(user: ModuleType) -> None:
    arrays = NAMES["mapped"]
    _, graph = captured(user.mapped, (arrays, {}), arrays)
    assert graph.fingerprint == ir.canonicalize(ir.capture(user.mapped, *arrays)).fingerprint


def test_a_key_holds_nothing_of_logs_modules_and_paths() -> None:
    class Holder:
        def __init__(self) -> None:
            self.log = logging.getLogger(__name__)
            self.math = sys.modules["math"]
            self.kind = Path
            self.path = Path(__file__)
            self.builtin = len

    key = _Call(((Holder(),), {})).key
    assert len(key) < 300, key
    assert str(Path(__file__).parent) not in key


def test_a_partial_that_holds_an_array_is_refused(user: ModuleType) -> None:
    held = partial(user.base, scale=mx.full((8,), 2.0))
    with pytest.raises(UnsupportedError, match=r"functools\.partial that holds an array"):
        export_function(held, "held", [ExampleCall(ROWS, {})], lambda _: {}, admits=lambda _: True)


def test_a_changed_state_is_named(user: ModuleType) -> None:
    before = _Call(((), {}), [(vars(user), "box")])
    user.box.scale = 3.0
    after = _Call(((), {}), [(vars(user), "box")])
    with pytest.raises(UnsupportedError, match=r"another state .* \(scale\); make the change"):
        check_same_state(before, after, "box")


def test_random_numbers_of_a_key_are_not_refused(user: ModuleType) -> None:
    # All that is missing is a kernel.
    with pytest.raises(InputError, match="found none in the store"):
        export_function(
            user.keyed, "keyed", [ExampleCall(ROWS, {})], lambda _: {}, admits=lambda _: True
        )


def _picked(*arrays: mx.array) -> list[mx.array]:
    x, places, table = arrays
    return [mx.take_along_axis(x, places[:, None], axis=-1) * table, places + 1]


def _along(
    function: Callable[..., list[mx.array]], given: list[mx.array], place: int, array: mx.array
) -> list[mx.array]:
    return function(*given[:place], array, *given[place + 1 :])[:1]


def _total(function: Callable[..., list[mx.array]], *arrays: mx.array) -> mx.array:
    return function(*arrays)[0].sum()


def test_derivatives_along_some_arrays_are_the_originals() -> None:
    x, places, table = mx.random.normal((4, 8)), mx.array([1, 0, 3, 7]), mx.ones((4, 1))
    served = _differentiable(_picked, _picked)
    for place in (0, 2):
        given = [x, places, table]
        (found,), (wanted,) = (
            mx.jvp(partial(_along, f, given, place), [given[place]], [given[place]])[1]
            for f in (served, _picked)
        )
        assert mx.array_equal(found, wanted).item()
    gradients: list[Callable[..., mx.array]] = [
        mx.grad(partial(_total, f)) for f in (served, _picked)
    ]
    found, wanted = (gradient(x, places, table) for gradient in gradients)
    assert mx.array_equal(found, wanted).item()


def test_a_wrong_call_is_told_with_the_functions_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x: mx.array, factor: float) -> mx.array:
        return x * factor

    monkeypatch.setattr(dispatch, "_runs_metal", lambda: True)
    with pytest.raises(TypeError, match=r"scaled\(\) missing 1 required positional argument"):
        dispatch._with_kernels(scaled, {})(mx.zeros(4))
