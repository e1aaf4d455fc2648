"""`@kernelwright.optimize` on the methods of a class, and around functions that it optimizes."""

# MLX's modules and the decorator lose the methods' types.
# mypy: ignore-errors

import copy
import gc
import pickle
import weakref
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest

from kernelwright import ir
from kernelwright.annotation import original_of
from kernelwright.runtime.optimize import explain, optimize
from tests.runtime.test_optimize import SHAPE, crown, gated

X = mx.random.normal(SHAPE, key=mx.random.key(1))


@optimize(store="sqlite://", device="simulator")
def squashed(x: mx.array) -> mx.array:
    """A function of a module, as people decorate theirs."""
    return mx.tanh(x) + 1


@pytest.fixture
def gate_class(tmp_path: Path) -> type:
    url = str(tmp_path / "kernels.db")

    class Gate:
        def __init__(self) -> None:
            self.weight = mx.random.normal((SHAPE[-1],))

        @optimize(store=url, device="simulator")
        def gate(self, x: mx.array, factor: int = 2) -> mx.array:
            return x * mx.sigmoid(x * self.weight) * factor + 1

        @optimize(store=url, device="simulator")
        @staticmethod
        def bare(x: mx.array) -> mx.array:
            return mx.tanh(x) + 1

    crown(url, original_of(Gate().gate), X)
    return Gate


def test_each_object_runs_kernels_with_its_own_arrays(gate_class: type) -> None:
    first, second = gate_class(), gate_class()
    for gate in (first, second):
        assert explain(gate.gate, X).path == "kernels"
        assert mx.allclose(gate.gate(X), original_of(gate.gate)(X), atol=1e-5).item()
    assert first.gate is first.gate
    assert first.gate is not second.gate
    first.weight = mx.zeros_like(first.weight)
    assert mx.allclose(first.gate(X), original_of(first.gate)(X), atol=1e-5).item()
    assert mx.allclose(gate_class.gate(first, X), X + 1, atol=1e-5).item()


def test_a_static_method_is_given_no_object(gate_class: type) -> None:
    assert mx.array_equal(gate_class().bare(X), mx.tanh(X) + 1).item()


def test_a_copied_object_has_methods_of_its_own(gate_class: type) -> None:
    gate = gate_class()
    gate.gate(X)
    for made in (copy.copy(gate), copy.deepcopy(gate)):
        made.weight = mx.zeros_like(gate.weight)
        assert original_of(made.gate).__self__ is made
        assert mx.allclose(made.gate(X), X + 1, atol=1e-5).item()
    kept = {k: v for k, v in vars(gate).items() if k != "weight"}
    assert pickle.loads(pickle.dumps(kept)).keys() == kept.keys()


def test_a_function_is_pickled_by_reference_and_copied_as_itself() -> None:
    squashed(X)
    assert pickle.loads(pickle.dumps(squashed)) is squashed
    assert copy.copy(squashed) is copy.deepcopy(squashed) is squashed


def test_a_method_on_its_own_is_copied_with_its_object(gate_class: type) -> None:
    gate = gate_class()
    gate.gate(X)
    copied = copy.deepcopy(gate.gate)
    assert original_of(copied).__self__ is not gate
    assert mx.array_equal(copied(X), gate.gate(X)).item()


def test_an_object_goes_with_its_methods(gate_class: type) -> None:
    gate = gate_class()
    gate.gate(mx.zeros((3, SHAPE[-1])))
    gone = weakref.ref(gate)
    del gate
    gc.collect()
    assert gone() is None


def test_a_module_may_be_called_by_an_optimized_method(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = mx.random.normal((SHAPE[-1],))

        @optimize(store=url, device="simulator")
        def __call__(self, x: mx.array) -> mx.array:
            return x * mx.sigmoid(x * self.weight) + 1

    block = Block()
    wanted = original_of(block.__call__)(X)
    crown(url, original_of(block.__call__), X)
    assert mx.allclose(block(X), wanted, atol=1e-5).item()
    assert block.__call__.explain(X).path == "kernels"
    assert list(block.parameters()) == ["weight"]


def test_an_optimized_function_within_another_is_part_of_it(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, X, X)
    inner = optimize(gated, store=url, device="simulator")
    inner(X, X)

    def outer(x: mx.array, gate: mx.array) -> mx.array:
        return inner(x, gate) * 2

    def plain(x: mx.array, gate: mx.array) -> mx.array:
        return gated(x, gate) * 2

    found, wanted = (ir.canonicalize(ir.capture(f, X, X)) for f in (outer, plain))
    assert found.fingerprint == wanted.fingerprint
    crown(url, outer, X, X)
    whole = optimize(outer, store=url, device="simulator")
    assert mx.allclose(whole(X, X), plain(X, X), atol=1e-5).item()
    assert explain(whole, X, X).path == "kernels"


def test_arrays_of_an_inner_optimized_function_are_not_frozen(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    space = {"weight": mx.full((SHAPE[-1],), 2.0)}

    @optimize(store=url, device="simulator")
    def inner(x: mx.array) -> mx.array:
        return x * mx.sigmoid(space["weight"])

    def outer(x: mx.array) -> mx.array:
        return inner(x) + 1

    crown(url, outer, X)
    whole = optimize(outer, store=url, device="simulator")
    whole(X)
    space["weight"] = mx.full((SHAPE[-1],), -3.0)
    assert mx.allclose(whole(X), outer(X), atol=1e-5).item()
