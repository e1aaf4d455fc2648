"""Random functions go search, export, change of state: kernels never outlive what they were for."""

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.passed_call import _leaves
from kernelwright.runtime.export.function.simulated import Launch, simulated_kernels
from kernelwright.runtime.export.function.variant import Lookup
from kernelwright.runtime.optimize import Optimized, optimize
from tests.runtime.test_optimize import crown

_SHAPE = (4, 32)
_TOLERANCE = {mx.float32: 1e-4, mx.float16: 2e-2, mx.bfloat16: 1e-1}


@dataclass(frozen=True)
class Piece:
    """Something that a function may read: its definition, its use, and ways to change it."""

    definition: str
    use: str
    """Of `v`, an array whose values lie around 1."""
    changes: tuple[str, ...]


_PIECES = (
    Piece("SCALE = 1.5", "v * SCALE", ("SCALE = {}", "SCALE = 2", "SCALE = 1.5")),
    Piece("T = {'a': [1.0, {'b': 0.5}]}", "v + T['a'][1]['b']", ("T['a'][1]['b'] = {}", "T = T")),
    Piece("L = [0.5, 0.25]", "v * sum(L)", ("L.append({})", "L[0] = {}", "L.reverse()")),
    Piece("W = mx.linspace(0.5, 1, 32)", "v * W.astype(v.dtype)", ("W = W * {}", "W = W[::-1]")),
    Piece("B = mx.array(0.5)", "v + B.astype(v.dtype)", ("B = mx.array({})", "B = B + 0")),
    Piece(
        "def helper(v, k=0.5, *, s=0.25):\n    return v * k + s",
        "helper(v)",
        (
            "helper.__defaults__ = ({},)",
            "helper.__kwdefaults__['s'] = {}",
            "def helper(v, k=0.5, *, s=0.25):\n    return v - k",
            "helper.__code__ = (lambda v, k=1, *, s=1: v + {}).__code__",
        ),
    ),
    Piece(
        "def act(v):\n    return v * mx.sigmoid(v)\nACTS = {'act': act}",
        "ACTS['act'](v)",
        ("def act(v):\n    return v * {}\nACTS['act'] = act", "ACTS = {{'act': mx.tanh}}"),
    ),
    Piece(
        "def make(k):\n    kept = [k]\n    def inner(v):\n        return v * k + kept[0]\n"
        "    return inner\ninner = make(0.5)",
        "inner(v)",
        ("inner = make({})", "inner.__closure__[1].cell_contents[0] = {}"),
    ),
    Piece(
        "class Base:\n    GAIN = 0.5\n    H = [0.25]\n    @property\n    def twice(self):\n"
        "        return self.GAIN * 2\n    @staticmethod\n    def st(v):\n        return v + 0.5\n"
        "    @classmethod\n    def cl(cls, v):\n        return v * cls.GAIN\n"
        "class Norm(Base):\n    def __init__(self):\n        self.eps, self.steps = 1e-3, 0\n"
        "    def forward(self, v):\n"
        "        return self.cl(self.st(v)) * self.twice + self.H[0] + self.eps\n"
        "block = Norm()",
        "block.forward(v)",
        (
            "Base.GAIN = {}",
            "Norm.GAIN = {}",
            "block.GAIN = {}",
            "block.eps = {}",
            "block.steps += 1",
            "Base.H[0] = {}",
            "Base.twice = property(lambda s: {})",
            "Norm.st = staticmethod(lambda v: v - {})",
            "Base.cl = classmethod(lambda c, v: v + {})",
        ),
    ),
    Piece(
        "def rate(n):\n    return n * 0.25",
        "v * rate(2)",
        ("def rate(n):\n    return n * {}", "rate.__code__ = (lambda n: {}).__code__"),
    ),
)
_NESTS = (
    ("x", "x", "r"),
    ("d", "d['a'] + d['b'][0]", "{'r': r, 'k': 3, 'l': [r * 2, None]}"),
    ("p, *rest, s=0.5", "p * s + sum(rest)", "(r, [mx.sum(r)])"),
)


@dataclass(frozen=True)
class Written:
    """A function of the user's, its arguments and what may become of its surroundings."""

    text: str
    args: tuple[object, ...]
    changes: tuple[str, ...]
    dtype: mx.Dtype


def written(seed: int) -> Written:
    chance = random.Random(seed)
    pieces = chance.sample(_PIECES, chance.randint(2, 4))
    nest = chance.randrange(len(_NESTS))
    signature, start, result = _NESTS[nest]
    body = "".join(f"    v = {piece.use}\n" for piece in pieces)
    definitions = "\n".join(piece.definition for piece in pieces)
    dtype = chance.choice(list(_TOLERANCE))
    changes = [
        change.format(round(chance.uniform(0.6, 1.9), 2))
        for piece in pieces
        for change in piece.changes
    ]
    chance.shuffle(changes)
    return Written(
        f"import mlx.core as mx\n{definitions}\ndef function({signature}):\n    v = {start}\n{body}"
        f"    r = mx.softmax(v, axis=-1)\n    return {result}\n",
        _arguments(nest, dtype, seed),
        tuple(changes[:6]),
        dtype,
    )


def _arguments(nest: int, dtype: mx.Dtype, seed: int) -> tuple[object, ...]:
    made = np.random.default_rng(seed)
    a, b = (mx.array(made.uniform(0.5, 1.5, _SHAPE).astype(np.float32)).astype(dtype) for _ in "ab")
    return ((a,), ({"a": a, "b": (b, None)},), (a, b, a))[nest]


def _imported(text: str, name: str, folder: Path) -> ModuleType:
    file = folder / f"{name}.py"
    file.write_text(text)
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    exec(compile(text, str(file), "exec"), vars(module))
    return module


def _same(one: object, other: object, tolerance: float) -> bool:
    pairs = zip(_leaves(one), _leaves(other), strict=True)
    return all(
        a.dtype == b.dtype and bool(mx.allclose(a, b, rtol=tolerance, atol=tolerance / 10))
        for a, b in pairs
    )


def _seeds() -> Sequence[object]:
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 150)]
    return [*range(3), *slow]


@pytest.mark.parametrize("seed", _seeds())
def test_kernels_never_outlive_what_they_were_made_for(
    seed: int, kernels_of: Callable[..., Lookup], tmp_path: Path
) -> None:
    plan = written(seed)
    user = _imported(plan.text, f"user_of_state_{seed}", tmp_path)
    function: Callable[..., object] = user.function
    url = str(tmp_path / "served.db")
    crown(url, function, *plan.args)
    served = optimize(function, store=url, device="simulator")
    assert isinstance(served, Optimized)
    lookup = kernels_of(lambda task: ("M4",))
    export = export_function(
        function, "function", [ExampleCall(plan.args, {})], lookup, admits=lambda _: True
    )
    launches: list[Launch] = []
    tolerance = _TOLERANCE[plan.dtype]
    around = simulated_kernels(32768, launches)
    with imported(export.files, "function", around) as module:
        vars(module)["_runs_metal"] = lambda: True
        assert module.function.serves(*plan.args)
        # A search writes an array of one element into its tasks; served, it is an input.
        told = served.explain(*plan.args)
        assert told.path == "kernels" or "B = mx.array" in plan.text, f"{told}\n{plan.text}"
        for change in ("", *plan.changes):
            exec(change, vars(user))
            with suppress(NameError, TypeError):
                # The export writes a variable of an enclosing function out in its own way.
                exec(change, vars(module))
            wanted = function(*plan.args)
            assert _same(served(*plan.args), wanted, tolerance), f"optimize: {change}\n{plan.text}"
            made, wanted = (f(*plan.args) for f in (module.function, module.function.reference))
            assert _same(made, wanted, tolerance), f"export: {change}\n{plan.text}"
    assert launches
    del sys.modules[user.__name__]
