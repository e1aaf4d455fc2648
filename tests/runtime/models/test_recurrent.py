"""States of Mamba and of gated deltas go in and out; mlx-lm's own kernels run where they can."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module
from mlx_lm.models import gated_delta, ssm
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

from benchmarks.coverage.configuration import architectures
from benchmarks.models.rows import ROWS, small
from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.derivative import Flat
from kernelwright.runtime.models.install import Installation, optimize_model, restore_model
from kernelwright.runtime.models.joined import Joined
from kernelwright.runtime.models.nest import arrays_of, call_key
from kernelwright.runtime.models.route import Plan
from kernelwright.runtime.models.site import SeenCall
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.translated import FunctionTrial, Translation
from kernelwright.runtime.server import Service
from tests.runtime.models.replaying import Replaying, decode, served_classes

Update = Callable[..., tuple[mx.array, mx.array]]
SSM_UPDATE = cast("Update", ssm.ssm_update)
DELTA_UPDATE = cast("Update", gated_delta.gated_delta_update)


def build(name: str) -> Module:
    mx.random.seed(7)
    model = cast("Module", next(a for a in architectures() if a.name == name).build())
    mx.eval(model.parameters())  # type: ignore[no-untyped-call]
    return model


class OnSimulator(Replaying):
    """Has kernels for every region, and a device that runs mlx-lm's own."""

    @property
    def device(self) -> Device | None:
        return open_device("simulator")


class WithoutKernels(OnSimulator):
    """Has a device that runs mlx-lm's own, and no kernels of the store."""

    def serve(self, graph: Graph) -> Service:
        return Service(graph, {}, (), "nothing", is_lazy=True)


def test_a_whole_layer_of_mamba_is_one_graph_with_its_states() -> None:
    model, server = build("mamba2"), Replaying()
    tokens, logits = decode(model, 6)
    optimize_model(model, server)
    for _ in range(2):
        found, same = decode(model, 6)
        assert found == tokens
        assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)
    assert "ResidualBlock" in served_classes(model)


def test_kernels_of_mlx_lm_are_tried_and_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    passes = FunctionTrial._passes

    def noted(self: FunctionTrial, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        ran.append(passes(self, args, kwargs))
        return ran[-1]

    monkeypatch.setattr(FunctionTrial, "_passes", noted)
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model({**small(row.config), "state_size": 32, "ssm_state_size": 32})
    tokens, logits = decode(model, 6)
    optimize_model(model, OnSimulator())
    for _ in range(2):
        found, same = decode(model, 6)
        assert found == tokens
        assert mx.allclose(same, logits, rtol=1e-3, atol=1e-3)
    assert ran
    assert all(ran)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_what_runs_through_numpy_is_never_put_into_what_mlx_records(dtype: mx.Dtype) -> None:
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model({**small(row.config), "state_size": 32, "ssm_state_size": 32})
    model.set_dtype(dtype)
    # A store without kernels: the parts around a state's update are MLX's, which are recorded.
    optimize_model(model, WithoutKernels())
    tokens, _ = decode(model, 3)
    restore_model(model)
    assert decode(model, 3)[0] == tokens


def test_a_kernel_that_fails_while_it_serves_leaves_the_call_to_mlx() -> None:
    calls: list[int] = []

    def other(x: mx.array) -> mx.array:
        calls.append(1)
        if len(calls) > 1:
            raise LaunchError("no such launch.")
        return x + 1

    trial = FunctionTrial(lambda x: x + 1, other, measures_time=False)
    for _ in range(3):
        assert trial(mx.array([1.0])).item() == 2  # type: ignore[attr-defined]
    assert len(calls) == 2


def test_a_kernel_that_needs_values_is_not_called_without_them() -> None:
    def other(x: mx.array) -> mx.array:
        return mx.array(x.tolist()) + 1

    trial = FunctionTrial(lambda x: x + 1, other, measures_time=False, is_lazy=False)
    x = mx.array([1.0, 2.0])
    assert mx.array_equal(cast("mx.array", trial(x)), x + 1)
    assert mx.array_equal(cast("mx.array", mx.compile(trial)(x)), x + 1)


def test_layers_that_differ_in_their_number_alone_share_one_plan() -> None:
    """Otherwise each of them would try a kernel from elsewhere by itself."""
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model(small(row.config))
    plans: list[tuple[SeenCall, Plan]] = []
    Installation(model, Replaying(), hear=plans.extend).install()
    decode(model, 3)
    restore_model(model)
    layers = [(c.module, p) for c, p in plans if type(c.module).__name__ == "ResidualBlock"]
    assert len({id(module) for module, _ in layers}) == 2
    kinds = {plan.trace.graph for _, plan in layers}
    assert len({id(plan) for _, plan in layers}) == len(kinds)


def test_a_gates_activation_is_computed_with_what_reads_it() -> None:
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model({**small(row.config), "state_size": 32, "ssm_state_size": 32})
    plans: list[Plan] = []
    Installation(
        model, OnSimulator(), hear=lambda chosen: plans.extend(plan for _, plan in chosen)
    ).install()
    decode(model, 2)
    restore_model(model)
    found = {
        ir.operation(region.extract())
        for plan in plans
        for segment, _ in plan.services
        for region in regions_of(segment.graph)
    }
    assert any(name.startswith("swiglu") for name in found)
    assert "silu" not in found


class Recorded(OnSimulator):
    """Has kernels that MLX records, as those of a GPU are."""

    def serve(self, graph: Graph) -> Service:
        return replace(super().serve(graph), is_lazy=True)


def test_a_states_update_and_the_graphs_around_it_are_recorded_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    updates: list[int] = []

    def update(*args: object, **kwargs: object) -> object:
        updates.append(1)
        return SSM_UPDATE(*args, **kwargs)

    def tried(self: Translation, function: Callable[..., object]) -> FunctionTrial:
        return FunctionTrial(function, update, measures_time=False)

    recorded: list[Joined] = []
    whole = Joined._whole

    def noted(self: Joined) -> Flat:
        recorded.append(self)
        return whole(self)

    monkeypatch.setattr(Joined, "_whole", noted)
    monkeypatch.setattr(Translation, "_replacement", tried)
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model({**small(row.config), "state_size": 32, "ssm_state_size": 32})
    tokens, logits = decode(model, 6)
    server = Recorded()
    optimize_model(model, server)
    for _ in range(3):
        found, same = decode(model, 6)
        assert found == tokens
        assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)
        before = server.runs, len(updates)
    decode(model, 6)
    assert updates
    assert (server.runs, len(updates)) == before
    # Once for prompts and once for steps, however many layers there are.
    assert len(recorded) == 2


def test_a_decode_step_of_mamba_differentiates_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(*args: object, **kwargs: object) -> object:
        y, state = SSM_UPDATE(*args, **kwargs)
        return mx.stop_gradient(y), mx.stop_gradient(state)

    def tried(self: Translation, function: Callable[..., object]) -> FunctionTrial:
        return FunctionTrial(function, update, measures_time=False)

    monkeypatch.setattr(Translation, "_replacement", tried)
    (row,) = (row for row in ROWS if row.name == "mamba2-1.3b")
    model = build_model({**small(row.config), "state_size": 32, "ssm_state_size": 32})

    def gradients() -> list[mx.array]:
        cache = make_prompt_cache(model)
        mx.eval(model(mx.array([[5, 6]]), cache=cache))

        def loss(parameters: dict[str, object]) -> mx.array:
            model.update(parameters)
            return mx.square(model(mx.array([[7]]), cache=cache)).mean()

        held = model.parameters()  # type: ignore[no-untyped-call]
        found = mx.grad(loss)(held)
        model.update(held)
        return arrays_of(found)

    expected = gradients()
    optimize_model(model, Recorded())
    decode(model, 4)
    pairs = zip(gradients(), expected, strict=True)
    assert all(mx.allclose(one, other, rtol=1e-3, atol=1e-5) for one, other in pairs)


def test_shapes_that_the_kernel_does_not_serve_stay_with_ops() -> None:
    """mlx-lm's kernel writes nothing where a state has fewer numbers than a simdgroup lanes."""
    trial = Translation(open_device("simulator")).of(ssm.ssm_update)
    assert type(trial) is FunctionTrial
    arguments = _ssm_arguments(states=16)
    for a, b in zip(trial(*arguments), SSM_UPDATE(*arguments), strict=True):  # type: ignore[call-overload]
        assert mx.array_equal(a, b)


def test_a_kernel_that_differs_is_not_used() -> None:
    def other(*args: object, **kwargs: object) -> object:
        y, state = SSM_UPDATE(*args, **kwargs)
        return y + 1, state

    trial = FunctionTrial(ssm.ssm_update, other, measures_time=False)
    arguments = _ssm_arguments()
    expected, found = SSM_UPDATE(*arguments), trial(*arguments)
    assert all(mx.array_equal(a, b) for a, b in zip(found, expected, strict=True))  # type: ignore[call-overload]


def test_the_kernel_is_mlx_lms_own() -> None:
    trial = Translation(open_device("simulator")).of(ssm.ssm_update)
    assert type(trial) is FunctionTrial
    arguments = _ssm_arguments()
    expected, found = SSM_UPDATE(*arguments), trial._other(*arguments)
    for a, b in zip(found, expected, strict=True):  # type: ignore[call-overload]
        assert mx.allclose(a, b, rtol=1e-4, atol=1e-5)


def _ssm_arguments(states: int = 32) -> tuple[object, ...]:
    heads, width = 4, 8
    keys = iter(mx.random.split(mx.random.key(0), 8))

    def draw(*shape: int) -> mx.array:
        return mx.random.normal(shape, key=next(keys))

    return (
        draw(1, 1, heads, width),
        draw(heads),
        draw(1, 1, 1, states),
        draw(1, 1, 1, states),
        draw(heads),
        draw(1, 1, heads),
        draw(heads),
        draw(1, heads, width, states),
        (0.001, 100.0),
        None,
        None,
    )


def test_calls_with_and_without_states_are_told_apart() -> None:
    empty, full = ArraysCache(size=2), ArraysCache(size=2)
    full[0], full[1] = mx.zeros((1, 3)), mx.zeros((1, 4))
    padded = ArraysCache(size=2, left_padding=[1])
    keys = [call_key((cache,), {}) for cache in (empty, full, padded)]
    assert len(set(keys)) == 3
    assert keys[0] == call_key((ArraysCache(size=2),), {})


def test_gated_deltas_run_mlx_lms_kernel() -> None:
    trial = Translation(open_device("simulator")).of(gated_delta.gated_delta_update)
    assert type(trial) is FunctionTrial
    keys = iter(mx.random.split(mx.random.key(1), 8))

    def draw(*shape: int) -> mx.array:
        return 0.3 * mx.random.normal(shape, key=next(keys))

    arguments = (
        draw(1, 1, 2, 32),
        draw(1, 1, 2, 32),
        draw(1, 1, 4, 8),
        draw(1, 1, 4),
        draw(1, 1, 4),
        draw(4),
        draw(4),
        draw(1, 4, 8, 32),
    )
    expected = DELTA_UPDATE(*arguments)
    for a, b in zip(trial._other(*arguments), expected, strict=True):  # type: ignore[call-overload]
        assert mx.allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(trial(*arguments), expected, strict=True):  # type: ignore[call-overload]
        assert mx.allclose(a, b, rtol=1e-4, atol=1e-5)
