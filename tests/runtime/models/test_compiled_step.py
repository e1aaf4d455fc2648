"""A decode step as one compiled function gives what its parts give, caches included."""

from dataclasses import replace

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache, make_prompt_cache

from kernelwright.ir.graph import Graph
from kernelwright.runtime.models.compiled_step import CompiledStep
from kernelwright.runtime.models.install import is_settled, optimize_model
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.toggle import without_kernels
from kernelwright.runtime.server import Service
from tests.runtime.models.replaying import Replaying, decode
from tests.runtime.models.test_first_use import CONFIG


class Lazy(Replaying):
    """Its kernels are ops of MLX, and its trials take no time to decide."""

    measures_time = True

    def serve(self, graph: Graph) -> Service:
        return replace(super().serve(graph), is_lazy=True)


def _joined(model: Module, monkeypatch: pytest.MonkeyPatch) -> CompiledStep:
    """Decode until the step of a token is one function; kernels always seem to pay."""
    monkeypatch.setattr("kernelwright.runtime.models.paying.is_faster", lambda *_: True)
    monkeypatch.setattr(
        "kernelwright.runtime.models.paying.best", lambda medians: max(medians, key=len)
    )
    monkeypatch.setattr("kernelwright.runtime.models.paying._LEAST_SPEEDUP", 0.0)
    monkeypatch.setattr("kernelwright.runtime.models.paying._TIMED", 1)
    monkeypatch.setattr("kernelwright.runtime.models.paying._BLOCKS", 1)
    optimize_model(model, Lazy())
    for _ in range(8):
        decode(model, 24)
        if is_settled(model):
            break
    assert is_settled(model)
    site = site_of(model)
    assert site is not None
    (step,) = (run for run in site.routes.values() if isinstance(run, CompiledStep))
    return step


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> tuple[Module, CompiledStep]:
    made = build_model(CONFIG)
    return made, _joined(made, monkeypatch)


Stepping = tuple[Module, CompiledStep]


def _alike(model: Module, count: int) -> None:
    tokens, logits = decode(model, count)
    with without_kernels(model):
        right, expected = decode(model, count)
    assert tokens == right
    assert mx.allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_tokens_and_logits_are_the_same(model: Stepping) -> None:
    _alike(model[0], 12)
    assert not model[1].problem


def test_weights_may_change_between_steps(model: Stepping) -> None:
    layer = model[0].model.layers[0].mlp.down_proj
    layer.weight = -2 * layer.weight
    _alike(model[0], 12)
    assert not model[1].problem


def test_a_cache_grows_past_its_buffers(model: Stepping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVCache, "step", 8)
    _alike(model[0], 24)
    assert not model[1].problem


def test_what_the_caches_hold_is_the_same(model: Stepping) -> None:
    def held() -> list[mx.array]:
        caches = make_prompt_cache(model[0])
        for tokens in ([[3, 1, 4]], [[1]], [[5]], [[9]]):
            mx.eval(model[0](mx.array(tokens), cache=caches))
        assert all(cache.offset == 6 for cache in caches)
        return [array[..., :6, :] for cache in caches for array in (cache.keys, cache.values)]

    found = held()
    with without_kernels(model[0]):
        right = held()
    assert all(mx.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, right, strict=True))


def test_caches_that_are_not_equally_far_are_left_to_the_parts(model: Stepping) -> None:
    def logits() -> mx.array:
        caches = make_prompt_cache(model[0])
        model[0](mx.array([[3, 1, 4]]), cache=caches)
        caches[1].trim(1)
        made: mx.array = model[0](mx.array([[1]]), cache=caches)
        return made

    found = logits()
    with without_kernels(model[0]):
        right = logits()
    assert mx.allclose(found, right, rtol=1e-4, atol=1e-4)


def test_a_step_differentiates_as_its_parts_do(model: Stepping) -> None:
    norm = model[0].model.norm

    def loss(weight: mx.array) -> mx.array:
        before, norm.weight = norm.weight, weight
        caches = make_prompt_cache(model[0])
        model[0](mx.array([[3, 1, 4]]), cache=caches)
        made: mx.array = model[0](mx.array([[1]]), cache=caches).square().sum()
        norm.weight = before
        return made

    found = mx.grad(loss)(norm.weight)
    with without_kernels(model[0]):
        right = mx.grad(loss)(norm.weight)
    assert mx.allclose(found, right, rtol=1e-3, atol=1e-3)


def test_what_cannot_be_recorded_runs_as_before(
    model: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise ValueError("no array")

    monkeypatch.setattr("kernelwright.runtime.models.compiled_step.growing", fails)
    model[1]._recorded.clear()
    _alike(model[0], 12)
    assert "no array" in model[1].problem
