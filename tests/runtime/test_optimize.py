"""An optimized function runs the store's kernels, or else the original."""

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear

from kernelwright import ir
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.evaluator.evaluation import Evaluation, Speedup, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition
from kernelwright.runtime.cutting import wholes_of
from kernelwright.runtime.optimize import Optimized, explain, optimize
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore, NewTrial, Rank

SHAPE = (4, 64)


def gated(x: mx.array, gate: mx.array) -> mx.array:
    return x * mx.sigmoid(gate) + 1


def nested(pair: dict[str, mx.array], scale: float) -> tuple[mx.array, list[mx.array]]:
    total = pair["x"] * mx.sigmoid(pair["gate"]) + 1
    return total * scale, [mx.exp(total)]


def crown(
    url: str,
    function: Callable[..., object],
    *arrays: object,
    threadgroup_bytes: int = 32768,
    speedups: tuple[Speedup, ...] = (),
    whole: bool = False,
    predicted_us: float = 12.0,
) -> None:
    """Put a champion for each region of a function, or all of it, into a store; as given."""
    device = SimulatorDevice(threadgroup_bytes).info
    graph = ir.canonicalize(ir.capture(function, *arrays))
    with KernelStore(url) as store:
        campaign = store.begin_campaign(name="t", spec="{}", environment=environment_of(device))
        regions = partition(graph)
        for region in wholes_of(graph, regions)[:1] if whole else regions:
            task = Task(region.extract(), "t")
            program = lower(task.graph, schedules(task.graph, device)[0])
            trial = store.add_trial(NewTrial(campaign.id, task, program, "offline", "as lowered"))
            verdict = Evaluation(
                task=task.fingerprint,
                program=program.id,
                device=device,
                status=Status.CORRECT,
                summary="correct",
                speedups=speedups,
                predicted_us=predicted_us if speedups or whole else None,
            )
            rank = Rank(kind="predicted", value=predicted_us)
            store.promote(store.record(trial.id, verdict, rank=rank))


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = str(tmp_path / "kernels.db")
    crown(path, gated, mx.zeros(SHAPE), mx.zeros(SHAPE))
    return path


def arrays() -> list[mx.array]:
    random = np.random.default_rng(0)
    return [mx.array(random.standard_normal(SHAPE, dtype=np.float32)) for _ in range(2)]


def optimized(function: Callable[..., object], url: str | None) -> Optimized:
    made = optimize(function, store=url, device="simulator")
    assert isinstance(made, Optimized)
    return made


def test_known_call_runs_the_champion(url: str) -> None:
    fast = optimized(gated, url)
    assert mx.allclose(fast(*arrays()), gated(*arrays())).item()  # type: ignore[arg-type]
    told = fast.explain(*arrays())
    assert told.path == "kernels"
    assert "fewer bytes than mx.compile" in told.regions[0].gain.words
    assert "1 of 1 regions" in str(told)
    assert told.calls == 1


def apart(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
    return mx.exp(x) * 2, mx.tanh(y) + 1


@pytest.mark.parametrize(
    ("whole_us", "parts_us", "said"),
    [(12.0, None, "1 of 1"), (12.0, 7.0, "1 of 1"), (15.0, 7.0, "2 of 2")],
)
def test_one_kernel_for_all_serves_where_it_is_faster_than_those_of_the_parts(
    tmp_path: Path, whole_us: float, parts_us: float | None, said: str
) -> None:
    """A model may have cut the function otherwise than the planner."""
    url, zeros = str(tmp_path / "kernels.db"), [mx.zeros(SHAPE)] * 2
    ahead = (Speedup(baseline="compile", ratio=2.0, kind="predicted"),)
    crown(url, apart, *zeros, whole=True, predicted_us=whole_us)
    if parts_us is not None:
        crown(url, apart, *zeros, speedups=ahead, predicted_us=parts_us)
    fast = optimized(apart, url)
    for found, expected in zip(fast(*arrays()), apart(*arrays()), strict=True):  # type: ignore[call-overload]
        assert mx.allclose(found, expected).item()
    assert f"{said} regions run kernels" in str(fast.explain(*arrays()))


@pytest.mark.parametrize("is_called_before", [False, True])
def test_simulated_kernels_leave_vmap_and_compile_to_the_original(
    url: str, *, is_called_before: bool
) -> None:
    fast = optimized(gated, url)
    if is_called_before:
        fast(*arrays())
    given = [mx.stack([a, 2 * a]) for a in arrays()]
    assert mx.allclose(mx.vmap(fast)(*given), gated(*given)).item()  # type: ignore[arg-type]
    assert mx.allclose(mx.compile(fast)(*arrays()), gated(*arrays())).item()  # type: ignore[arg-type]
    slope = mx.vmap(mx.grad(lambda x, g: fast(x, g).sum()))(*given)  # type: ignore[attr-defined]
    assert slope.shape == given[0].shape


def _speedup(kind: Literal["measured", "predicted"], ratio: float) -> Speedup:
    return Speedup(baseline="fast", ratio=ratio, lower=ratio, upper=ratio, confidence=1, kind=kind)


@pytest.mark.parametrize(
    ("speedups", "path"),
    [
        ((_speedup("predicted", 0.65),), "original"),
        ((_speedup("predicted", 1.5), _speedup("predicted", 0.9)), "original"),
        ((_speedup("predicted", 1.5),), "kernels"),
        ((_speedup("predicted", 0.65), _speedup("measured", 1.1)), "kernels"),
        ((_speedup("predicted", 1.5), _speedup("measured", 0.9)), "original"),
    ],
)
def test_a_champion_that_mlx_beats_is_not_served(
    tmp_path: Path, speedups: tuple[Speedup, ...], path: str
) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, *arrays(), speedups=speedups)
    told = optimized(gated, url).explain(*arrays())
    assert told.path == path
    assert ("MLX is best for these shapes" in told.reason) == (path == "original")


def test_other_shapes_run_the_original_and_are_wanted(url: str) -> None:
    fast = optimized(gated, url)
    other = [mx.ones((2, 3)), mx.ones((2, 3))]
    for _ in range(3):
        assert mx.array_equal(fast(*other), gated(*other)).item()  # type: ignore[arg-type]
    (wanted,) = fast.wanted()
    assert (wanted.calls, wanted.inputs) == (3, ("f32[2,3]", "f32[2,3]"))
    assert ir.Graph.from_json(wanted.graph_json).fingerprint == wanted.fingerprint
    assert "no fresh champion fits" in fast.explain(*other).reason


def test_nested_arguments_and_results_keep_their_nest(tmp_path: Path) -> None:
    x, gate = arrays()
    url = str(tmp_path / "kernels.db")
    crown(url, lambda p: nested(p, 2.0), {"x": x, "gate": gate})
    fast = optimized(nested, url)
    made = fast({"x": x, "gate": gate}, 2.0)
    assert isinstance(made, tuple)
    assert isinstance(made[1], list)
    assert fast.explain({"x": x, "gate": gate}, 2.0).path == "kernels"
    expected = nested({"x": x, "gate": gate}, 2.0)
    assert mx.allclose(made[0], expected[0]).item()
    assert mx.allclose(made[1][0], expected[1][0]).item()


def test_plain_values_are_part_of_the_key(url: str) -> None:
    fast = optimized(nested, url)
    x, gate = arrays()
    for scale in (1, 1.0, True, 2.0):
        fast({"x": x, "gate": gate}, scale)
    assert len(fast.wanted()) == 4


@pytest.mark.parametrize("argument", [object(), {1, 2}, np.zeros(3)])
def test_unknown_arguments_run_the_original(url: str, argument: object) -> None:
    fast = optimized(lambda value: value, url)
    assert fast(argument) is argument
    assert "neither an array nor a plain value" in fast.explain(argument).reason


def test_a_missing_store_runs_the_original(tmp_path: Path) -> None:
    fast = optimized(gated, str(tmp_path / "none.db"))
    assert mx.array_equal(fast(*arrays()), gated(*arrays())).item()  # type: ignore[arg-type]
    assert "no kernel store here yet" in fast.explain(*arrays()).reason
    assert not (tmp_path / "none.db").exists()


def test_data_dependent_control_flow_runs_the_original(url: str) -> None:
    def branching(x: mx.array) -> mx.array:
        return x if bool(x.sum() > 0) else -x

    fast = optimized(branching, url)
    assert mx.array_equal(fast(-mx.ones(3)), mx.ones(3)).item()  # type: ignore[arg-type]
    assert fast.wanted() == ()


def test_what_fails_at_the_look_up_runs_the_original(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    fast = optimized(gated, url)
    monkeypatch.setattr(KernelServer, "serve", broken)
    assert mx.array_equal(fast(*arrays()), gated(*arrays())).item()  # type: ignore[arg-type]
    assert "looking it up failed: ZeroDivisionError: a bug" in fast.explain(*arrays()).reason


@pytest.mark.parametrize("value", [3, "x", [1], Path])
def test_what_is_no_function_is_refused_in_a_sentence(value: object) -> None:
    with pytest.raises(InputError, match=r"expected a function of MLX arrays .*, found"):
        optimize(value)  # type: ignore[arg-type]


def test_explain_refuses_other_functions() -> None:
    with pytest.raises(KernelwrightError, match=r"made by kernelwright\.optimize"):
        explain(gated, *arrays())


def test_kernels_found_under_a_lifted_limit_serve_only_who_asks_for_it(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, mx.zeros(SHAPE), mx.zeros(SHAPE), threadgroup_bytes=98304)
    assert "no fresh champion fits" in optimized(gated, url).explain(*arrays()).reason
    lifted = optimize(gated, store=url, device="simulator", threadgroup_bytes=98304)
    assert isinstance(lifted, Optimized)
    assert lifted.explain(*arrays()).path == "kernels"
    absent = optimize(gated, store=url, device="metal", threadgroup_bytes=98304)
    assert isinstance(absent, Optimized)
    assert "no GPU that runs such Metal kernels" in absent.explain(*arrays()).reason


def test_explain_of_a_model_says_why_no_kernel_serves(tmp_path: Path) -> None:
    model = Linear(8, 8)
    with pytest.raises(InputError, match="found Linear that is not optimized"):
        explain(model)
    optimize(model, store=str(tmp_path / "none.db"), device="simulator")
    told = explain(model, mx.zeros((2, 8)))
    assert told.path == "original"
    assert "MLX runs all of it: there is no kernel store here yet" in str(told)


def test_a_model_that_was_pickled_says_that_it_is_not_optimized(tmp_path: Path) -> None:
    model = optimize(Linear(8, 8), store=str(tmp_path / "none.db"), device="simulator")
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(InputError, match="is not optimized, as after restore, pickle"):
        explain(loaded)


@pytest.mark.parametrize("what", [gated, Linear(8, 8)], ids=["function", "model"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threadgroup_bytes": -5}, "expected threadgroup_bytes from 32768 to"),
        ({"threadgroup_bytes": 1 << 40}, "expected threadgroup_bytes from 32768 to"),
        ({"store": ""}, "expected store to be a path or a URL, found ''"),
    ],
    ids=str,
)
def test_an_option_that_says_nothing_is_refused(
    what: Callable[..., object], options: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        optimize(what, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"buckets": [1]}, {"axis": 1}, {"padded": [1]}], ids=str)
def test_what_varies_in_a_function_alone_is_refused_with_a_model(
    options: dict[str, object],
) -> None:
    with pytest.raises(InputError, match="with a function alone, found them with the model Linear"):
        optimize(Linear(8, 8), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("half.db", "half.db is damaged"),
        ("foreign.db", "foreign.db is not a Kernelwright store"),
        ("foo://bar", "expected a path, or the URL of a SQLite or PostgreSQL database"),
        ("postgresql://nobody@127.0.0.1:1/x", "127.0.0.1:1/x does not answer"),
    ],
)
def test_a_store_that_cannot_be_read_is_no_missing_one(
    tmp_path: Path, place: str, words: str
) -> None:
    with KernelStore(str(tmp_path / "half.db")):
        pass
    whole = (tmp_path / "half.db").read_bytes()
    (tmp_path / "half.db").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "foreign.db").write_bytes(bytes(range(256)) * 64)
    url = place if "://" in place else str(tmp_path / place)
    model = optimize(Linear(8, 8), store=url, device="simulator")
    for told in (explain(model, mx.zeros((2, 8))), optimized(gated, url).explain(*arrays())):
        assert "the kernel store cannot be read: " in told.reason
        assert words in told.reason


def test_explain_of_a_model_lists_the_parts_that_run_kernels(tmp_path: Path) -> None:
    class Gated(Module):
        def __call__(self, x: mx.array, gate: mx.array) -> mx.array:
            return gated(x, gate)

    url = str(tmp_path / "kernels.db")
    crown(url, gated, *arrays())
    model = Gated()  # type: ignore[no-untyped-call]
    optimize(model, store=url, device="simulator")
    told = explain(model, *arrays())
    assert told.path == "kernels"
    assert told.reason == "the whole model (Gated): kernels"


def test_a_coroutine_runs_as_it_stands_and_is_not_started_for_a_look(url: str) -> None:
    async def gated_later(x: mx.array, y: mx.array) -> mx.array:
        return gated(x, y)

    fast = optimized(gated_later, url)
    # A coroutine that nobody awaits is a warning, and so an error of the tests.
    made: mx.array = asyncio.run(fast(*arrays()))  # type: ignore[arg-type]
    assert mx.array_equal(made, gated(*arrays())).item()
    assert "is a coroutine, which computes nothing" in fast.explain(*arrays()).reason
