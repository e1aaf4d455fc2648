"""A module whose code does more than compute runs its own code, and none of it for looking."""

import collections
import importlib
import logging
import os
import random
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.runtime.models.install import explain_model, optimize_model, restore_model
from kernelwright.runtime.models.purity.examination import effect_of_module
from tests.runtime.models.replaying import Replaying, served_classes

nn: Any = importlib.import_module("mlx.nn")
"""MLX exports its layers in a way that type checkers do not follow."""
X = mx.linspace(-1, 1, 64).reshape(2, 32)
LOG: list[object] = []
COUNTS: collections.Counter[str] = collections.Counter()
QUEUE = collections.deque([1.0, 2.0, 3.0])
settings = types.ModuleType("settings")
sys.modules["settings"] = settings
CALLS = 0
VALUE = 2.0


class Counted:
    n = 0

    def __init__(self) -> None:
        self.n = 0

    def step(self) -> float:
        self.n += 1
        return float(self.n)


HELD = Counted()


class Gate(nn.Module):  # type: ignore[misc]
    """The module that is not examined away: norm and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.n, self.a, self.b = nn.RMSNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = x + self.b(nn.silu(self.a(self.n(x))))
        return made


def draws() -> float:
    return 1.0 if random.random() < 0.5 else 2.0


def draws_by_another_name() -> float:
    source = random
    return source.gauss(0, 1)


def shuffles() -> float:
    order = [1.0, 2.0, 3.0]
    random.shuffle(order)
    return order[0]


def draws_of_numpy() -> float:
    return float(np.random.rand())


def draws_of_mlx() -> float:
    return float(str(mx.random.uniform().item()))


def reads_the_clock() -> float:
    return time.perf_counter()


def reads_a_clock_inside() -> float:
    return (lambda: time.monotonic())()


def reads_the_environment() -> float:
    return float(os.environ.get("GAIN", "1"))


def gets_the_environment() -> float:
    return float(os.getenv("GAIN") or 1)


def opens_a_file() -> float:
    with open(__file__) as file:  # noqa: PTH123
        return float(len(file.read()) % 7)


def reads_a_file() -> float:
    return float(len(Path(__file__).read_text()) % 7)


def asks_for_a_file() -> float:
    return 1.0 if os.path.exists("/nowhere/at/all") else 2.0  # noqa: PTH110


def names_globals() -> float:
    return float(globals()["VALUE"])


def imports_by_name() -> float:
    return float(len(__import__("settings").__name__))


def asks_for_a_name() -> float:
    return 1.0 if hasattr(settings, "NEW") else 2.0


def looks_into_a_module() -> float:
    return float(settings.__dict__.get("NEW", 1.0))


def counts_in_a_class() -> float:
    Counted.n += 1
    return float(Counted.n)


def counts_in_a_global() -> float:
    global CALLS
    CALLS += 1
    return float(CALLS)


def steps_what_is_global() -> float:
    return HELD.step()


def steps_another_name() -> float:
    held = [HELD]
    for one in held:
        step = one.step
    return step()


def logs_into_a_list() -> float:
    LOG.append(1)
    return 1.0


def counts_words() -> float:
    COUNTS.update(["a"])
    return float(COUNTS["a"])


def rotates() -> float:
    QUEUE.rotate()
    return QUEUE[0]


def reads_a_class() -> float:
    return float(getattr(Counted, "".join("n")))


def warns() -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("one", stacklevel=1)
    return 1.0


def logs() -> float:
    logging.getLogger("gate").warning("one")
    return 1.0


def prints() -> float:
    print("one")
    return 1.0


def enclosed() -> Callable[[], float]:
    count = 0.0

    def counts_in_a_variable() -> float:
        nonlocal count
        count += 1
        return count

    return counts_in_a_variable


counts_in_a_variable = enclosed()


EFFECTS = [
    *(draws, draws_by_another_name, shuffles, draws_of_numpy, draws_of_mlx, reads_the_clock),
    *(reads_a_clock_inside, reads_the_environment, gets_the_environment, opens_a_file),
    *(reads_a_file, asks_for_a_file, names_globals, imports_by_name, asks_for_a_name),
    *(looks_into_a_module, counts_in_a_class, counts_in_a_global, steps_what_is_global),
    *(
        steps_another_name,
        logs_into_a_list,
        counts_words,
        rotates,
        reads_a_class,
        warns,
        logs,
        prints,
    ),
    counts_in_a_variable,
]


class Impure(Gate):
    """Does something besides computing, through a method and a function."""

    def __init__(self, effect: Callable[[], float]) -> None:
        super().__init__()
        self.g = Gate()
        self._effect = effect

    def scale(self) -> float:
        return self._effect()

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.a(self.g(x)) * self.scale()
        return made


CLOCKS = (reads_the_clock, reads_a_clock_inside)


def run(model: Callable[..., Any]) -> tuple[object, ...]:
    """Call a model from the same beginning; return what came of it."""
    global CALLS
    Counted.n = CALLS = HELD.n = 0
    LOG.clear()
    COUNTS.clear()
    QUEUE.extend([1.0, 2.0, 3.0] if not QUEUE else sorted(QUEUE.popleft() for _ in range(3)))
    random.seed(1)
    np.random.seed(1)
    mx.random.seed(1)
    made = [model(X).tolist() for _ in range(3)]
    held = (Counted.n, CALLS, HELD.n, list(LOG), dict(COUNTS), list(QUEUE))
    drawn = (random.random(), np.random.rand(), mx.random.uniform().item())
    return (made, *held, *drawn)


def build(effect: Callable[[], float]) -> "Impure":
    mx.random.seed(3)
    model = Impure(enclosed() if effect is counts_in_a_variable else effect)
    mx.eval(model.parameters())
    return model


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.__name__)
def test_what_code_does_besides_computing_it_does_at_each_call(
    effect: Callable[[], float], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(build(effect))
    printed = capsys.readouterr().out
    model = optimize_model(build(effect), Replaying())
    found = run(model)
    assert found[1:] == expected[1:]
    assert effect in CLOCKS or np.allclose(found[0], expected[0], atol=1e-5)  # type: ignore[arg-type]
    assert capsys.readouterr().out == printed
    said = explain_model(model, (), {})
    assert "Impure runs its own code: it " in said
    assert "test_purity.py:" in said
    assert served_classes(model) == {"Gate", "Linear"}


class Keeping(Gate):
    """Changes in place what it holds, or is asked for an attribute by code of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.g = Gate()
        self._set: set[int] = set()
        self._array, self._deque = np.zeros(3), collections.deque([0])
        self._list, self._dict = [0], {"n": 0}
        self._memo: dict[tuple[int, ...], mx.array] = {}
        self._default: collections.defaultdict[int, int] = collections.defaultdict(int)
        self._iterator = iter(range(99))
        self._held = Counted()

    def scale(self) -> float:
        raise NotImplementedError

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.a(self.g(x)) * self.scale()
        return made

    def state(self) -> str:
        kept = (self._set, self._deque, self._list, self._dict, list(self._memo), self._default)
        return str((*kept, self._array, self._held.n, str(self._iterator)[:12]))


class UnionInPlace(Keeping):
    def scale(self) -> float:
        self._set |= {len(self._set)}
        return float(len(self._set))


class ArrayInPlace(Keeping):
    def scale(self) -> float:
        self._array += 1
        return float(self._array[0])


class DequeInPlace(Keeping):
    def scale(self) -> float:
        self._deque += [1]
        return float(len(self._deque))


class ByALocalName(Keeping):
    def scale(self) -> float:
        held = self._list
        held += [1]
        return float(len(held))


class IntoAList(Keeping):
    def scale(self) -> float:
        self._list[0] += 1
        return float(self._list[0])


class OutOfAList(Keeping):
    def scale(self) -> float:
        self._list.append(1)
        del self._list[0]
        return float(self._list[0]) + 1


class IntoAView(Keeping):
    def scale(self) -> float:
        view = self._array[:2].reshape(2, 1)
        view[0] = view[0] + 1
        return float(self._array[0])


class FillsAnArray(Keeping):
    def scale(self) -> float:
        self._array.fill(self._array[0] + 1)
        return float(self._array[0])


class WritesOut(Keeping):
    def scale(self) -> float:
        np.add(self._array, 1, out=self._array)
        return float(self._array[0])


class ByTheClass(Keeping):
    def scale(self) -> float:
        list.append(self._list, 1)
        return float(len(self._list))


class ByAnOperatorsName(Keeping):
    def scale(self) -> float:
        self._dict.__setitem__("n", self._dict["n"] + 1)
        return float(self._dict["n"])


class IntoAJoinedList(Keeping):
    def scale(self) -> float:
        held = ([self._list] * 2)[:1]
        held[0].append(1)
        return float(len(self._list))


class Unpacking(Keeping):
    def scale(self) -> float:
        (*numbers,) = self._iterator
        return float(len(numbers) + 1)


class IntoADefaultDict(Keeping):
    def scale(self) -> float:
        return float(self._default[len(self._default)] + len(self._default))


class FromAnIterator(Keeping):
    def scale(self) -> float:
        for number in self._iterator:
            return float(number + 1)
        return 0.0


class IntoAnObject(Keeping):
    def scale(self) -> float:
        self._held.n += 1
        return float(self._held.n)


class Memoizing(Keeping):
    def __call__(self, x: mx.array) -> mx.array:
        if x.shape not in self._memo:
            self._memo[x.shape] = self.g(x)
        made: mx.array = self.a(self._memo[x.shape])
        return made


class Descriptor:
    n = 0

    def __get__(self, owner: object, kind: type | None = None) -> float:
        Descriptor.n += 1
        return float(Descriptor.n)


class Describing(Keeping):
    factor = Descriptor()

    def scale(self) -> float:
        return self.factor


class Answering(Keeping):
    def __getattr__(self, name: str) -> object:
        COUNTS[name] += 1
        return float(COUNTS[name]) if name == "factor" else super().__getattr__(name)

    def scale(self) -> float:
        return float(str(self.factor))


class Watching(Keeping):
    def __getattribute__(self, name: str) -> object:
        if name == "factor":
            COUNTS[name] += 1
            return float(COUNTS[name])
        return super().__getattribute__(name)

    def scale(self) -> float:
        return float(str(self.factor))


KEEPING: list[type[Keeping]] = [
    *(UnionInPlace, ArrayInPlace, DequeInPlace, ByALocalName, IntoAList, OutOfAList, IntoAView),
    *(FillsAnArray, WritesOut, ByTheClass, IntoADefaultDict, FromAnIterator, IntoAnObject),
    *(ByAnOperatorsName, IntoAJoinedList, Unpacking, Memoizing, Describing, Answering, Watching),
]


@pytest.mark.parametrize("kind", KEEPING, ids=lambda kind: kind.__name__)
def test_what_a_module_holds_changes_once_at_each_call(kind: type[Keeping]) -> None:
    found = []
    for is_optimized in (False, True):
        mx.random.seed(3)
        model = kind()
        mx.eval(model.parameters())
        Descriptor.n = 0
        COUNTS.clear()
        if is_optimized:
            optimize_model(model, Replaying())
        made = [model(x) for x in (X, X, mx.concatenate([X, X]), X)]
        counted = (Descriptor.n, COUNTS["factor"])
        found.append(([y.tolist() for y in made], model.state(), counted))
    assert found[0][1:] == found[1][1:]
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert np.allclose(one, other, atol=1e-5)
    assert f"{kind.__name__} runs its own code: it " in explain_model(model, (), {})
    assert served_classes(model) == {"Gate", "Linear"}


class Plain(Gate):
    """Makes and changes what does not outlive the call."""

    verbose = False

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(32, 32) for _ in range(2)]
        self.options = SimpleNamespace(scale=2.0, debug=False)

    @property
    def scale(self) -> float:
        return float(self.options.scale)

    def __call__(self, x: mx.array) -> mx.array:
        found: list[mx.array] = []
        counted = Counted()
        for number, layer in enumerate(self.layers):
            x = layer(x)
            found.append(x * counted.step() * number)
        if self.options.debug or self.verbose:
            print(x)
        table = dict(zip("ab", found, strict=True))
        table["c"] = super().__call__(x)
        x[0] = 1
        return sum(table.values(), start=x) * self.scale


def test_what_does_not_outlive_a_call_may_change() -> None:
    assert effect_of_module(Plain(), ["__call__"]) is None
    model = Plain()
    model.options.debug = True
    found = effect_of_module(model, ["__call__"])
    assert found is not None
    assert found.what == "prints"


def test_what_is_set_in_the_class_of_a_model_is_set_for_good() -> None:
    class Scaled(Gate):
        k = 1.0

        def __call__(self, x: mx.array) -> mx.array:
            return super().__call__(x) * self.k

    model, other = Scaled(), Scaled()
    other.update(model.parameters())
    optimize_model(model, Replaying())
    first = model(X)
    for k in (3.0, 5.0):
        type(model).k = k
        for _ in range(2):
            assert mx.allclose(model(X), first * k, atol=1e-5)
        assert Scaled.k == other.k == k
    restore_model(model)
    assert mx.allclose(model(X), other(X))
    optimize_model(model, Replaying())
    del type(model).k
    assert not hasattr(Scaled, "k")


def test_what_is_another_at_each_call_runs_the_original() -> None:
    class Varying(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.g, self.k = nn.Linear(32, 32), 1.0

        def __call__(self, x: mx.array) -> mx.array:
            made: mx.array = mx.softmax(self.g(x)) * self.k
            return made

    model = Varying()
    optimize_model(model, Replaying())
    first = model(X)
    looks = []
    for number in range(14):
        model.k = 1.0 + number
        assert mx.allclose(model(X), first * model.k, atol=1e-5)
        looks.append(model._kernelwright_site.owner._learned)
    assert looks[-1] == looks[10]
    said = explain_model(model, (), {})
    assert said.startswith("g (Linear): kernels; Varying runs its own code: its attribute k")
