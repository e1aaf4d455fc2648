"""A kernel runs only while what its function reads besides its arguments is what it was."""

# mypy: disable-error-code="no-untyped-call,no-any-return,unused-ignore"
# mypy: disable-error-code="attr-defined,assignment,arg-type"

import copy
import functools
import itertools
import queue as queue_module
import sys
import threading
import weakref
from abc import ABCMeta
from collections import ChainMap, OrderedDict, deque, namedtuple
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.base import Module
from mlx.nn.layers.normalization import RMSNorm

from kernelwright import ir
from kernelwright.errors import InputError
from kernelwright.runtime.definition import _are_alike
from kernelwright.runtime.guard import State

USER = """
import functools
import mlx.core as mx

SCALE = 2.0
TABLE = {"a": [1.0, {"b": 3.0}]}
PLACES = {1, 2}
UNREAD = 1

def act(x):
    return x * 2

def helper(x, k=2.0, *, shift=0.5):
    return x * k + shift * DEEP

DEEP = 4.0
ACTS = {"silu": act}

class Base:
    GAIN = 2.0
    HEADS = [4]

    @property
    def gain(self):
        return self.GAIN * 2

    @staticmethod
    def st(x):
        return act(x) + 1

    @classmethod
    def cl(cls, x):
        return x * cls.GAIN

class Norm(Base):
    def __init__(self):
        self.eps, self.steps, self.cfg = 1e-5, 0, {"post": 1.5}

    def forward(self, x):
        return self.cl(self.st(x)) * self.gain * self.cfg["post"] + self.HEADS[0] + self.eps

block = Norm()

@functools.lru_cache
def factor(n):
    return n * SCALE

def make(k):
    kept = [k]
    def inner(x):
        return x * k + kept[0]
    return inner

inner = make(3.0)
compiled = mx.compile(act)

def function(x):
    import settings_of_a_test
    y = ACTS["silu"](helper(x)) * SCALE * TABLE["a"][1]["b"] + len(PLACES) + inner(x)
    return block.forward(compiled(y)) * factor(2) + settings_of_a_test.bias(x) + function.rate

function.rate = 1.0
"""


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    settings = ModuleType("settings_of_a_test")
    exec("OFFSET = 1.0\ndef bias(x):\n    return x + OFFSET", vars(settings))
    monkeypatch.setitem(sys.modules, settings.__name__, settings)
    found = ModuleType("user_of_a_guard")
    monkeypatch.setitem(sys.modules, found.__name__, found)
    exec(USER, vars(found))
    return found


def renamed(user: ModuleType) -> FunctionType:
    space: dict[str, object] = dict(vars(user))
    exec("def act(x):\n    return x * 3", space)
    return space["act"]  # type: ignore[return-value]


CHANGES: dict[str, Callable[[ModuleType], object]] = {
    "a global": lambda u: setattr(u, "SCALE", 5.0),
    "an int for a float": lambda u: setattr(u, "SCALE", 2),
    "a builtin that is shadowed": lambda u: setattr(u, "len", lambda _: 7),
    "an item of an item": lambda u: u.TABLE["a"][1].update(b=1.0),
    "an item of a list": lambda u: u.TABLE["a"].__setitem__(1, {"b": 9.0}),
    "a set": lambda u: u.PLACES.add(5),
    "a helper": lambda u: setattr(u, "helper", lambda x: x),
    "defaults of a helper": lambda u: setattr(u.helper, "__defaults__", (4.0,)),
    "keyword defaults of a helper": lambda u: u.helper.__kwdefaults__.update(shift=9.0),
    "code of a helper": lambda u: setattr(
        u.helper, "__code__", (lambda x, k=2, *, shift=0: x).__code__
    ),
    "a global of a helper": lambda u: setattr(u, "DEEP", 5.0),
    "a function in a dict": lambda u: u.ACTS.update(silu=renamed(u)),
    "a variable": lambda u: setattr(u.inner.__closure__[0], "cell_contents", 9.0),
    "a list in a variable": lambda u: u.inner.__closure__[1].cell_contents.append(1),
    "what mx.compile was given": lambda u: setattr(u.act, "__code__", renamed(u).__code__),
    "what lru_cache was given": lambda u: setattr(u.factor.__wrapped__, "__defaults__", (3,)),
    "an attribute of a function": lambda u: setattr(u.function, "rate", 2.0),
    "a base class's number": lambda u: setattr(u.Base, "GAIN", 5.0),
    "a base class's list": lambda u: u.Base.HEADS.__setitem__(0, 9),
    "a class's own number": lambda u: setattr(u.Norm, "GAIN", 5.0),
    "an object's own number": lambda u: setattr(u.block, "GAIN", 5.0),
    "a property": lambda u: setattr(u.Base, "gain", property(lambda s: 1.0)),
    "a static method": lambda u: setattr(u.Base, "st", staticmethod(lambda x: x)),
    "a class method": lambda u: setattr(u.Base, "cl", classmethod(lambda c, x: x)),
    "a method": lambda u: setattr(u.Norm, "forward", lambda s, x: x),
    "an attribute": lambda u: setattr(u.block, "eps", 1.0),
    "an item of an attribute": lambda u: u.block.cfg.update(post=2.0),
    "another object": lambda u: setattr(u, "block", type("Norm", (u.Norm,), {})()),
    "the class of an object": lambda u: setattr(u.block, "__class__", type("N", (u.Norm,), {})),
    "a module that is imported inside": lambda u: setattr(
        sys.modules["settings_of_a_test"], "OFFSET", 3.0
    ),
    "a function of such a module": lambda u: setattr(
        sys.modules["settings_of_a_test"], "bias", lambda x: x
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_read_is_noticed(user: ModuleType, change: str) -> None:
    before = State(user.function)
    assert before.holds()
    CHANGES[change](user)
    assert not before.holds()
    after = State(user.function)
    assert after.identity != before.identity
    assert after.holds()


UNSEEN: dict[str, Callable[[ModuleType], object]] = {
    "a global that no line reads": lambda u: setattr(u, "UNREAD", 5),
    "an attribute that no line reads": lambda u: setattr(u.block, "steps", 5),
    "an equal number": lambda u: setattr(u, "SCALE", float("2.0")),
    "an equal list": lambda u: setattr(u.Base, "HEADS", [4]),
    "an equal dict": lambda u: setattr(u.block, "cfg", {"post": 1.5}),
    "a new attribute": lambda u: setattr(u.block, "seen", 5),
}


@pytest.mark.parametrize("change", UNSEEN)
def test_what_computes_the_same_is_the_same_state(user: ModuleType, change: str) -> None:
    before = State(user.function)
    UNSEEN[change](user)
    after = State(user.function)
    assert after.identity == before.identity
    assert after.holds()


class Layer(Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.scale, self.bias = RMSNorm(8), 0.5, mx.zeros(8)

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.norm(x) * self.scale + self.bias


def test_other_weights_are_the_same_state_and_other_layers_are_not() -> None:
    layer = Layer()
    before = State(layer)
    layer.bias = layer.bias + 1
    layer.norm.weight = mx.ones(8) * 3
    assert before.holds()
    layer.norm.eps = 0.5
    assert not before.holds()
    layer.norm.eps = 1e-5
    assert State(layer).identity == before.identity
    layer.norm = type("RMSNorm", (RMSNorm,), {})(8)
    assert State(layer).identity != before.identity


def test_places_of_every_kind_are_compared() -> None:
    class Slotted:
        __slots__ = ("rate",)

    slotted, flag = Slotted(), ContextVar("flag", default=1)
    slotted.rate = 2.0
    table, space, queue = np.ones(3), SimpleNamespace(k=1), deque([1, 2])
    part = functools.partial(lambda x, k: x * k, k=[2.0])

    def function(x: mx.array) -> mx.array:
        made: mx.array = part(x) * slotted.rate * float(table[0]) * space.k * queue[0] * flag.get()
        return made

    changes: list[Callable[[], object]] = [
        lambda: setattr(slotted, "rate", 3.0),
        lambda: table.__setitem__(0, 5.0),
        lambda: setattr(space, "k", 2),
        lambda: queue.append(3),
        lambda: part.keywords["k"].append(1.0),
        lambda: flag.set(4),
    ]
    for change in changes:
        state = State(function)
        assert state.holds()
        change()
        assert not state.holds()
        assert State(function).identity != state.identity


def test_what_wraps_or_inherits_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meta(type):
        level = 2.0

        def __getattr__(cls, name: str) -> float:
            return cls.level if name == "gain" else 0.0

    class First:
        rate = 2.0

    class Second:
        rate = 3.0

    class Child(First, metaclass=Meta):
        pass

    kind = ABCMeta("Kind", (), {"__module__": __name__})

    held = {"k": 2.0}
    shown, lookup, at = MappingProxyType(held), held.get, held.__getitem__
    order = OrderedDict(a=1.0, b=2.0)

    def function(x: mx.array) -> mx.array:
        total = shown["k"] + lookup("k", 0.0) + at("k") + next(iter(order.values()))
        total += Child.rate + Child.gain + isinstance(1, kind)
        return mx.softmax(x) * total

    def others(x: mx.array) -> mx.array:
        return mx.tanh(x)

    changes: list[Callable[[], object]] = [
        lambda: held.update(k=3.0),
        lambda: order.move_to_end("a"),
        lambda: setattr(Meta, "level", 3.0),
        lambda: setattr(Child, "__bases__", (Second,)),
        lambda: kind.register(int),
        lambda: monkeypatch.setattr(mx, "softmax", others),
    ]
    for change in changes:
        state = State(function)
        assert not state.obstacle
        assert state.holds()
        change()
        assert not state.holds()
        assert State(function).identity != state.identity


NEXT = itertools.count()
DRAWN = np.random.default_rng(0)
WAITING: queue_module.Queue[int] = queue_module.Queue()
LOCAL = threading.local()
SHOWN = {"k": 1.0}.values()
REACHED: weakref.WeakSet[type] = weakref.WeakSet()
MIXED = ChainMap({"k": 1.0})


@pytest.mark.parametrize(
    "reads",
    [
        lambda x: x * next(NEXT),
        lambda x: x * DRAWN.random(),
        lambda x: x * WAITING.qsize(),
        lambda x: x * len(vars(LOCAL)),
        lambda x: x * len(SHOWN),
        lambda x: x * len(REACHED),
        lambda x: x * MIXED["k"],
        lambda x: x * len(First.__subclasses__()),
        lambda x: x * ("json" in sys.modules),
    ],
)
def test_what_has_a_state_that_nothing_shows_is_said(
    reads: Callable[[mx.array], mx.array],
) -> None:
    assert State(reads).obstacle


class First:
    pass


def test_what_is_registered_for_a_class_is_read() -> None:
    @functools.singledispatch
    def dispatched(x: object) -> float:
        return 1.0

    def reads(x: mx.array) -> mx.array:
        return x * dispatched(x)

    state = State(reads)
    assert not state.obstacle
    reads(mx.ones(2))
    assert state.holds()
    dispatched.register(mx.array, lambda x: 2.0)
    assert not state.holds()


def test_the_shape_of_a_global_array_counts_and_its_values_do_not() -> None:
    space: dict[str, object] = {"TABLE": mx.zeros((4,)), "__name__": "a_test"}
    exec("def function(x):\n    return x * TABLE.shape[0]", space)
    function = space["function"]
    assert isinstance(function, FunctionType)
    state = State(function)
    space["TABLE"] = mx.ones((4,))
    assert state.holds()
    space["TABLE"] = mx.ones((5,))
    assert not state.holds()


def test_what_is_too_large_to_compare_is_said() -> None:
    table = np.zeros(100_000)

    def function(x: mx.array) -> mx.array:
        return x * float(table[0])

    assert State(function).obstacle == "table"


def test_a_chain_of_values_that_never_ends_is_said() -> None:
    nest: list[object] = []
    for _ in range(5000):
        nest = [nest]

    def function(x: mx.array) -> mx.array:
        return x * len(nest)

    assert "nested" in State(function).obstacle


def caught(x: mx.array) -> mx.array:
    try:
        if mx.sum(x) > 0:
            return x
    except Exception:
        pass
    return x * 6


def swallowed(x: mx.array) -> mx.array:
    try:
        count = len(set(x.tolist()))  # type: ignore[arg-type]
    except BaseException:
        count = 1
    return x * count


def evaluated(x: mx.array) -> mx.array:
    try:
        mx.eval(x)
    except ValueError:
        return x * 2
    return x


@pytest.mark.parametrize("function", [caught, swallowed, evaluated])
def test_a_look_at_values_is_noticed_whatever_the_function_catches(
    function: Callable[[mx.array], mx.array],
) -> None:
    with pytest.raises(InputError, match=r"test_guard.py:\d+\) looks at the values"):
        ir.capture(function, mx.zeros(4))


def test_an_error_of_the_users_own_is_no_look_at_values() -> None:
    table: dict[int, mx.array] = {}

    def function(x: mx.array) -> mx.array:
        try:
            return mx.exp(table[x.ndim])
        except KeyError:
            return mx.exp(x)

    assert [node.op for node in ir.capture(function, mx.zeros(4)).nodes] == ["exp"]


_NAMED_TUPLES = """
class Step(NamedTuple):
    mean: float
    count: int = {count}

    @property
    def twice(self):
        return self.mean * {factor}

class Longer(namedtuple("Longer", "mean {field}")):
    def run(self):
        return Step(self.mean, self[1]).twice
"""


_STATE = """
from dataclasses import dataclass, field

@dataclass
class State:
    step: int = 0
    extras: object = field(default_factory={factory})
    names: list = field(default_factory=list)
"""


def test_dataclasses_whose_fields_have_factories_are_alike() -> None:
    def made(factory: str) -> object:
        space: dict[str, object] = {"__name__": "a_test"}
        exec(_STATE.format(factory=factory), space)
        return space["State"]

    assert _are_alike(made("dict"), made("dict"))
    assert not _are_alike(made("dict"), made("set"))


def test_named_tuples_that_say_the_same_are_alike() -> None:
    def made(**changed: object) -> dict[str, object]:
        given = {"count": 1, "factor": 2, "field": "count", **changed}
        space = {"NamedTuple": NamedTuple, "namedtuple": namedtuple, "__name__": "a_test"}
        exec(_NAMED_TUPLES.format(**given), space)
        return space

    one, other = made(), made()
    assert _are_alike(one["Step"], other["Step"])
    assert _are_alike(one["Longer"], other["Longer"])
    for changed in ({"count": 2}, {"factor": 3}):
        assert not _are_alike(one["Step"], made(**changed)["Step"])
        assert not _are_alike(one["Longer"], made(**changed)["Longer"])
    assert not _are_alike(one["Longer"], made(field="step")["Longer"])


def test_dataclasses_that_say_the_same_are_alike() -> None:
    text = "@dataclass\nclass State:\n    mean: float\n    step: int = {step}\n"

    def made(step: int) -> object:
        space: dict[str, object] = {"dataclass": dataclass, "__name__": "a_test"}
        exec(text.format(step=step), space)
        return space["State"]

    assert _are_alike(made(1), made(1))
    assert not _are_alike(made(1), made(2))
    copied = made(1)
    copy.copy(copied(0.0))  # type: ignore[operator]
    assert _are_alike(copied, made(1))


_SETTINGS = """
settings = {settings}

class State:
    def weight(self) -> float:
        return self.mass * settings["gravity"]
"""


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ("{'gravity': 9.81, 'box': [-1.0, 1.0]}", "{'gravity': 9.81, 'box': [-1.0, 2.0]}"),
        ("SimpleNamespace(gravity=9.81)", "SimpleNamespace(gravity=1.62)"),
        ("[('gravity', 9.81)]", "[('gravity', 9.81), ('moon', 1.62)]"),
        ("{'gravity': 1}", "{'gravity': True}"),
        ("{'gravity': 1, 'box': 2}", "{'box': 2, 'gravity': 1}"),
        ("{'gravity': max}", "{'gravity': min}"),
    ],
)
def test_classes_whose_methods_read_equal_containers_are_alike(settings: str, others: str) -> None:
    def made(settings: str) -> object:
        space: dict[str, object] = {"SimpleNamespace": SimpleNamespace, "__name__": "a_test"}
        exec(_SETTINGS.format(settings=settings), space)
        return space["State"]

    assert _are_alike(made(settings), made(settings))
    assert not _are_alike(made(settings), made(others))


@pytest.mark.parametrize("options", ["frozen=True", "slots=True", "frozen=True, slots=True"])
def test_methods_that_name_their_own_class_are_alike(options: str) -> None:
    def made(step: int) -> object:
        space: dict[str, object] = {"dataclass": dataclass, "__name__": "a_test"}
        text = f"@dataclass({options})\nclass State:\n    mean: float\n    step: int = {step}\n"
        exec(text, space)
        return space["State"]

    assert _are_alike(made(1), made(1))
    assert not _are_alike(made(1), made(2))


def test_wrappers_of_ones_own_are_alike_where_their_variables_are() -> None:
    def scaled(factor: float) -> object:
        @functools.wraps(len)
        def inner(x: float) -> float:
            return x * factor

        return inner

    assert _are_alike(scaled(2.0), scaled(2.0))
    assert not _are_alike(scaled(2.0), scaled(3.0))
