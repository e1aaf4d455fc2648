"""A function's source comes with the helpers of its package, however they are imported."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.carried_text import dispatch_names
from kernelwright.runtime.export.function.portability import NotPortableError
from kernelwright.runtime.export.function.source import carry

_UTIL = """
import mlx.core as mx
NEG = -1e9
TABLE = mx.array([1.0, 2.0, 3.0])
def masked(s, mask):
    return mx.where(mask, s, NEG)
def safe_softmax(s, mask, axis=-1):
    return mx.softmax(masked(s, mask), axis=axis)
"""
_POOLS = """
from types import SimpleNamespace
import mlx.core as mx
import carriedpkg.layers.util
from . import util as _u
from .util import safe_softmax as _softmax
from ..const import TEMPERATURE as T
from carriedpkg.layers import util

def aliased(x, mask, temp=T):
    return _softmax(x / temp, mask)

def by_module(x, mask, temp=T):
    safe_softmax = util.safe_softmax(x / temp, mask)
    return safe_softmax + util.NEG

def by_alias(x, mask):
    return _u.safe_softmax(x, mask)

def by_path(x, mask):
    return carriedpkg.layers.util.safe_softmax(x, mask) * util.TABLE

TAG = SimpleNamespace(length=len(__name__))

def tagged(x, mask):
    return x * TAG.length + (0 if __name__ else 1)

def whole(x, mask):
    return vars(util)["safe_softmax"](x, mask)
"""


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import a package of a user's."""
    layers = tmp_path / "carriedpkg" / "layers"
    layers.mkdir(parents=True)
    (tmp_path / "carriedpkg" / "__init__.py").touch()
    (tmp_path / "carriedpkg" / "const.py").write_text("TEMPERATURE = 0.7\n")
    (layers / "__init__.py").touch()
    (layers / "util.py").write_text(_UTIL)
    (layers / "pool.py").write_text(_POOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("carriedpkg.layers.pool")
    for name in [n for n in sys.modules if n.partition(".")[0] == "carriedpkg"]:
        del sys.modules[name]


def _run_alone(source: CarriedSource) -> dict[str, object]:
    space: dict[str, object] = dict(source.arrays)
    exec("\n".join([*dict.fromkeys(source.imports), *source.blocks]), space)
    return space


@pytest.mark.parametrize("name", ["aliased", "by_module", "by_alias", "by_path"])
def test_a_helper_of_the_package_is_carried(pools: ModuleType, name: str) -> None:
    source = carry(getattr(pools, name), name)
    assert "carriedpkg" not in " ".join(source.imports)
    given = mx.array([[0.5, 2.0, 1.0]]), mx.array([[True, False, True]])
    made = _run_alone(source)[name](*given)  # type: ignore[operator]
    assert mx.array_equal(made, getattr(pools, name)(*given)).item()


def test_a_module_as_a_value_is_refused_in_a_sentence(pools: ModuleType) -> None:
    with pytest.raises(NotPortableError, match=r"needs carriedpkg\.layers\.util as a whole"):
        carry(pools.whole, "whole")


def test_what_a_module_is_told_of_itself_is_the_exports_own(pools: ModuleType) -> None:
    source = carry(pools.tagged, "tagged")
    assert "TAG = SimpleNamespace(length=len('carriedpkg.layers.pool'))" in source.blocks
    assert not any(block.startswith("__name__") for block in source.blocks)
    space: dict[str, object] = {"__name__": "of_its_own"}
    exec("\n".join([*dict.fromkeys(source.imports), *source.blocks]), space)
    assert getattr(space["tagged"], "__module__", "") == "of_its_own"
    given = mx.array([[0.5, 2.0, 1.0]])
    assert mx.array_equal(space["tagged"](given, None), pools.tagged(given, None)).item()  # type: ignore[operator]


_TAKEN = """
import math as types
from functools import reduce as inspect

import mlx.core as mx

gc = 1.0
_VARIANTS = 0.5
dis = mx.array([1.0, 2.0, 4.0])


def _kernel_1(x):
    return x


def sys(x):
    return _kernel_1(x) + gc * _VARIANTS


class _Call:
    def __call__(self, x):
        return x * types.sqrt(4.0)


_call = _Call()


def taken(x):
    return _call(sys(x) * dis) * inspect(lambda a, b: a + b, [1.0, 1.0])


def _Walk(x):
    return sys(x)
"""


def test_names_of_the_code_that_every_export_carries_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "takennames.py").write_text(_TAKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    user = importlib.import_module("takennames")
    source = carry(user.taken, "taken")
    assert not dispatch_names().keys() & source.names.keys() - {"mx"}
    space = {**dispatch_names(), **_run_alone(source)}
    given = mx.array([0.5, 2.0, 1.0])
    assert mx.array_equal(space["taken"](given), user.taken(given)).item()  # type: ignore[operator]
    assert type(space["_call"]).__qualname__ == "_Call"
    with pytest.raises(NotPortableError, match="uses the name _Walk, which exported modules use"):
        carry(user._Walk, "_Walk")
    del sys.modules["takennames"]


def test_an_object_of_a_librarys_class_comes_with_its_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["import mlx.nn as nn", "net = nn.Sequential(nn.ReLU(), lambda x: x * 2.0)"]
    (tmp_path / "stackednet.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    net = importlib.import_module("stackednet").net
    source = carry(net, "net")
    assert source.blocks == [lines[1]]
    assert not source.stated
    del sys.modules["stackednet"]


def test_the_modules_of_a_package_that_a_file_imports_come_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "import mlx.core, mlx.nn",
        "def gated(x):",
        "    return mlx.nn.silu(x) * mlx.core.abs(x)",
    ]
    (tmp_path / "dottednames.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    source = carry(importlib.import_module("dottednames").gated, "gated")
    assert {"import mlx.core", "import mlx.nn"} <= {*source.imports}
    del sys.modules["dottednames"]


_DECORATED = """
import mlx.core as mx

def gated(function):
    def wrap(x, *args, **kwargs):
        return function(x, *args, **kwargs) * mx.sigmoid(x)
    return wrap

@gated
def centered(x, factor=2.0):
    return (x - x.mean()) * factor

also = centered
"""


@pytest.mark.parametrize("name", ["centered", "also"])
def test_a_decorator_need_not_wrap_as_functools_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "decorating.py").write_text(_DECORATED)
    monkeypatch.syspath_prepend(str(tmp_path))
    user = importlib.import_module("decorating")
    run = _run_alone(carry(getattr(user, name), name))[name]
    given = mx.array([0.5, 2.0, 1.0])
    assert mx.array_equal(run(given, factor=3.0), user.centered(given, factor=3.0)).item()  # type: ignore[operator]
    del sys.modules["decorating"]


_CLASS_METHODS = """
import mlx.core as mx

class Codec:
    GAIN = 2.0

    @classmethod
    def encode(cls, x, low=-1.0):
        return (x - low) * cls.GAIN

class Loud(Codec):
    GAIN = 8.0

quiet = Codec()
"""


@pytest.mark.parametrize("owner", ["Codec", "Loud", "quiet"])
def test_a_class_method_comes_with_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    (tmp_path / "classmethods.py").write_text(_CLASS_METHODS)
    monkeypatch.syspath_prepend(str(tmp_path))
    user = importlib.import_module("classmethods")
    method = getattr(user, owner).encode
    source = carry(method, "encode")
    assert source.attributes == ()
    given = mx.array([0.5, 2.0, 1.0])
    run = _run_alone(source)["encode"]
    assert mx.array_equal(run(given, low=0.0), method(given, low=0.0)).item()  # type: ignore[operator]
    del sys.modules["classmethods"]


_NONLOCAL = """
import mlx.core as mx
def make():
    calls = 0
    def counted(x):
        "Counts its calls."
        nonlocal calls  # between calls
        calls += 1
        return mx.exp(x)
    def own(x):
        calls = 0
        def inner():
            nonlocal calls
            calls += 1
        inner()
        return mx.exp(x) * calls
    return counted, own
counted, own = make()
"""


def test_a_variable_of_the_function_around_it_is_refused_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "enclosedcount.py").write_text(_NONLOCAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    user = importlib.import_module("enclosedcount")
    said = r"by `nonlocal calls` \(.*enclosedcount\.py:7\); make it an argument and a result"
    with pytest.raises(NotPortableError, match=said):
        carry(user.counted, "counted")
    assert "nonlocal calls" in "\n".join(carry(user.own, "own").blocks)
    del sys.modules["enclosedcount"]
