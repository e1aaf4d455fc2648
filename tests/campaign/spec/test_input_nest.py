"""Nests of inputs: what is written is read again as the same call, and nothing is executed."""

import enum
import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import mlx.core as mx
import pytest

from kernelwright.annotation import Example
from kernelwright.campaign.spec.input_text import read_inputs, written
from kernelwright.campaign.spec.search_target import load_subjects
from kernelwright.campaign.spec.subject import subject_of
from kernelwright.errors import UsageError
from kernelwright.service.python.target import function_subjects, subjects


class Pair(NamedTuple):
    left: mx.array
    right: tuple[int, int] = (1, 2)


@dataclass(frozen=True)
class Bodies:
    mass: mx.array
    name: str = "sun"
    pair: Pair | None = None


@dataclass
class Counter:
    step: mx.array
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.extra = 1


def _f(*args: object, **kwargs: object) -> None:
    """Take anything."""


@pytest.mark.parametrize(
    "value",
    [
        {"a": mx.ones((3, 2)), "b": {"c": [mx.array(1, mx.int8), 2.5, "text", None, True]}},
        (mx.ones(3),),
        [],
        (640, 480),
        Pair(mx.ones((2,), mx.bfloat16)),
        Bodies(mx.array(1.5), "f32", Pair(mx.ones(3), (4, 5))),
        {1: (Bodies(mx.ones(2)), [Pair(mx.ones(1))])},
    ],
)
def test_a_nest_is_read_as_it_was_written(value: object) -> None:
    texts = written(Example((value,), (("by_name", value),)))
    assert len(texts) == 2
    (call,) = read_inputs(texts)
    read = subject_of("f", _f, "f.py", call)
    assert _shown(read.inputs[0]) == _shown(value)
    assert _shown(read.keywords["by_name"]) == _shown(value)


def _shown(value: object) -> object:
    """Return a nest with shapes and dtypes in place of arrays, and the names of its classes."""
    if isinstance(value, mx.array):
        return (value.shape, str(value.dtype))
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return (type(value), [_shown(item) for item in value])
    if isinstance(value, Bodies):
        return (Bodies, _shown(vars(value)))
    return value


def test_a_record_keeps_what_a_text_would_lose() -> None:
    assert written(Example((Counter(mx.array(1)),))) == ()


def test_sizes_in_a_nest_have_names_and_ranges() -> None:
    large, small = read_inputs(["{'a': f32[n,2..8]}", "n=3"], ["x"])
    assert (
        str(large.inputs[0]) == "{'a': TensorType(shape=(3, 8), dtype=<Dtype.FLOAT32: 'float32'>)}"
    )
    assert "(3, 2)" in str(small.inputs[0])


@pytest.mark.parametrize(
    "text",
    [
        "builtins.dict(a=f32[2])",
        "{'a': f32[2], **{}}",
        "['f32[2] and more', f32[2]]",
        "[print(f32[2])]",
    ],
)
def test_what_is_no_nest_of_types_and_values_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected an input such as"):
        read_inputs([text])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Bodies(weight=f32[2])", "found the field 'weight'"),
        ("Bodies(name='sun')", "found no field 'mass'"),
        ("Pair(right=(1, 2))", r"expected Pair\(left=…, right=…\), found no field 'left'"),
    ],
)
def test_a_field_that_is_wrong_or_lacking_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_inputs([f"{__name__}.{text}"])


def test_fields_that_are_left_out_have_their_defaults() -> None:
    texts = [f"{__name__}.{text}" for text in ("Bodies(mass=f32[2])", "Pair(left=f32[3])")]
    (call,) = read_inputs(texts)
    bodies, pair = subject_of("f", _f, "f.py", call).inputs
    assert isinstance(bodies, Bodies)
    assert (bodies.name, bodies.pair, bodies.mass.shape) == ("sun", None, (2,))
    assert _shown(pair) == _shown(Pair(mx.zeros(3)))


def test_types_within_a_record_are_read() -> None:
    given = (Pair("f32[2]"), Bodies("f16[3]", "f"))  # type: ignore[arg-type]
    subject = subject_of("f", _f, "f.py", Example(given))
    assert _shown(subject.inputs[0]) == _shown(Pair(mx.zeros(2)))
    assert _shown(subject.inputs[1]) == _shown(Bodies(mx.zeros(3, mx.float16), "f"))
    assert written(Example(subject.inputs)) == subject.written


class Mode(enum.Enum):
    SOFT = "soft"


@pytest.mark.parametrize("value", [Mode.SOFT, [Mode.SOFT], Bodies(mx.ones(1), Mode.SOFT)])  # type: ignore[arg-type]
def test_a_member_of_an_enumeration_is_written_by_its_name(value: object) -> None:
    (text,) = written(Example((value,)))
    assert f"{__name__}.Mode.SOFT" in text
    (call,) = read_inputs([text])
    assert _shown(subject_of("f", _f, "f.py", call).inputs[0]) == _shown(value)


def test_a_record_is_of_the_copy_of_a_file_that_is_searched(tmp_path: Path) -> None:
    (tmp_path / "nestshop.py").write_text(_SHOP)
    (one,) = load_subjects("nestshop.py:total", ["f32[2]"], folder=tmp_path)
    own = sys.modules["nestshop"] = ModuleType("nestshop")
    exec(_SHOP, vars(own))
    try:
        text = "nestshop.Order(price=f32[64])"
        (subject,) = load_subjects("nestshop.py:total", [text], folder=tmp_path)
        assert isinstance(subject.inputs[0], subject.function.__globals__["Order"])
        (read,) = function_subjects(own.total, [text], lambda origin: ())
        assert isinstance(read.inputs[0], own.Order)
    finally:
        del sys.modules["nestshop"], sys.modules[one.function.__module__]


def test_a_file_is_the_module_that_objects_among_inputs_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nestorders.py").write_text(_SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("nestorders")
    given = [module.Order(mx.ones(3))]
    (subject,) = subjects(f"{tmp_path / 'nestorders.py'}:total", given)
    assert subject.function is module.total


_SHOP = """
from dataclasses import dataclass
import mlx.core as mx

@dataclass
class Order:
    price: mx.array
    count: int = 1

def total(order):
    return mx.exp(-order.price) * order.count
"""


@pytest.mark.parametrize("before", ["", "order="])
def test_a_record_may_be_of_the_file_that_is_searched(tmp_path: Path, before: str) -> None:
    (tmp_path / "nestshop.py").write_text(_SHOP)
    text = f"{before}nestshop.Order(price=f32[64], count=2)"
    (subject,) = load_subjects("nestshop.py:total", [text], folder=tmp_path)
    given = (*subject.inputs, *subject.keywords.values())
    assert isinstance(given[0], subject.function.__globals__["Order"])
    assert written(Example(subject.inputs, tuple(subject.keywords.items()))) == (text,)
    del sys.modules[subject.function.__module__]


_OWN = """
import enum
from dataclasses import dataclass
import mlx.core as mx
import kernelwright as kw
@dataclass
class State:
    h: mx.array
class Mode(enum.Enum):
    FAST = 1
@kw.example("State(h=f32[2,3])", mode="Mode.FAST")
def step(state, mode=Mode.FAST):
    assert isinstance(state, State) and isinstance(mode, Mode)
    return state.h * 2
"""


@pytest.mark.parametrize("state", ["State", "steps.State", "ownpkg.steps.State"])
@pytest.mark.parametrize("target", ["ownpkg/steps.py", "ownpkg.steps"])
def test_a_class_goes_by_its_name_its_file_or_its_module(
    tmp_path: Path, target: str, state: str
) -> None:
    (tmp_path / "ownpkg").mkdir()
    (tmp_path / "ownpkg" / "__init__.py").touch()
    (tmp_path / "ownpkg" / "steps.py").write_text(_OWN)
    texts = [f"{state}(h=f32[n,3])", f"{state.replace('State', 'Mode')}.FAST", "n=2"]
    (typed,) = load_subjects(f"{target}:step", texts, folder=tmp_path)
    (decorated,) = load_subjects(f"{target}:step", folder=tmp_path)
    try:
        assert typed.function(*typed.inputs).shape == (2, 3)  # type: ignore[attr-defined]
        assert decorated.function(*decorated.inputs, **decorated.keywords).shape == (2, 3)  # type: ignore[attr-defined]
    finally:
        for name in ("ownpkg.steps", "ownpkg"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("path", ["os.system", "Nobody", f"{__name__}.Nobody"])
def test_a_class_that_is_not_found_is_named(path: str) -> None:
    said = f"expected a class, found no '{path}' in .*test_input_nest.py or in a module"
    with pytest.raises(UsageError, match=said):
        read_inputs([f"{path}(mass=f32[2])"], home=__name__)
