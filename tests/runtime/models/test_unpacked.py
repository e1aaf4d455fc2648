"""Quantized layers multiply by unpacked weights in prefill where that is faster on the machine."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.nn.layers.containers import Sequential
from mlx.nn.layers.quantized import QuantizedLinear
from mlx_lm.models.switch_layers import QuantizedSwitchLinear

from kernelwright.campaign import Engine, SearchSpec, offline_team
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.runtime.models import unpacked
from kernelwright.runtime.models.install import optimize_model, restore_model
from kernelwright.runtime.models.packed import Experts, Packed, Unpack, errors
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore
from tests.campaign.scripted import TrustingJudge


class Measuring(KernelServer):
    """Takes what the processor needs for what a GPU would."""

    measures_time = True


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacked, "LEAST_SIZE", 128 * 64)
    monkeypatch.setattr(unpacked, "TRIED_WEIGHTS", 64 * 64)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the products of unpacked weights that ran."""
    found: list[int] = []
    own = Packed.unpacked_times

    def counted(self: Packed, x: mx.array, unpack: Unpack | None = None) -> mx.array:
        found.append(x.size // x.shape[-1])
        return own(self, x, unpack)

    monkeypatch.setattr(Packed, "unpacked_times", counted)
    return found


def _model() -> Sequential:
    mx.random.seed(0)
    layer = QuantizedLinear(64, 64, bias=True, group_size=64, bits=4)
    layer.set_dtype(mx.bfloat16)
    return Sequential(layer)  # type: ignore[no-untyped-call]


def _x(rows: int) -> mx.array:
    return mx.random.normal((1, rows, 64), key=mx.random.key(1)).astype(mx.bfloat16)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kernels.db")
    KernelStore(path).close()
    return path


def test_a_layer_that_stays_packed_is_asked_once_until_its_model_changes(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def stays_packed(self: unpacked.Unpacking, x: mx.array, packed: Packed) -> unpacked.Way:
        asked.append(tuple(x.shape))
        return unpacked.Way(is_unpacked=False)

    monkeypatch.setattr(unpacked.Unpacking, "way", stays_packed)
    model = _model()
    optimize_model(model, Measuring(store, "simulator"))
    for rows in (200, 200, 130, 200):
        model(_x(rows))
    assert asked == [(1, 200, 64), (1, 130, 64)]
    model.layers[0].scales = model.layers[0].scales.astype(mx.float16)
    model(_x(200))
    assert asked[2:] == [(1, 200, 64)]


def test_a_faster_product_of_unpacked_weights_is_kept_and_remembered(
    store: str, runs: list[int]
) -> None:
    model = _model()
    expected = model(_x(200))
    optimize_model(model, Measuring(store, "simulator"))
    # MLX's own product of packed bfloat16 weights is many times slower on a processor.
    assert mx.allclose(model(_x(200)), expected, rtol=0.05, atol=0.05)
    assert 200 in runs
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT is_kept, kernel_us < mlx_us FROM machine_trial").fetchall()
    assert rows == [(1, 1)]
    other = _model()
    optimize_model(other, Measuring(store, "simulator"))
    runs.clear()
    other(_x(200))
    assert runs == [200]
    restore_model(model)
    runs.clear()
    assert mx.array_equal(model(_x(200)), expected)
    assert not runs


def test_a_slower_one_is_never_used_again(
    store: str, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Packed.unpacked_times

    def late(self: Packed, x: mx.array, unpack: Unpack | None = None) -> mx.array:
        time.sleep(0.02)
        return counted(self, x, unpack)

    monkeypatch.setattr(Packed, "unpacked_times", late)
    model = _model()
    expected = model(_x(128))
    optimize_model(model, Measuring(store, "simulator"))
    assert mx.array_equal(model(_x(128)), expected)
    assert runs
    runs.clear()
    assert mx.array_equal(model(_x(128)), expected)
    assert not runs


@pytest.mark.parametrize(("rows", "measures"), [(127, True), (128, False)])
def test_few_rows_and_devices_that_measure_no_time_try_nothing(
    rows: int, measures: bool, runs: list[int]
) -> None:
    model = _model()
    expected = model(_x(rows))
    optimize_model(model, (Measuring if measures else KernelServer)(None, "simulator"))
    assert mx.array_equal(model(_x(rows)), expected)
    assert not runs


def test_without_a_store_the_process_remembers(runs: list[int], tmp_path: Path) -> None:
    model = _model()
    optimize_model(model, Measuring(str(tmp_path / "none.db"), "simulator"))
    model(_x(128))
    runs.clear()
    model(_x(128))
    assert runs == [128]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_unpacked_weights_are_no_less_exact(dtype: mx.Dtype) -> None:
    w = mx.random.normal((64, 256), key=mx.random.key(2)).astype(dtype)
    x = mx.random.normal((128, 256), key=mx.random.key(3)).astype(dtype)
    ours, packed = errors(x, Packed(*mx.quantize(w, 64, 4), 64, 4))
    assert ours <= packed


def test_weights_are_not_unpacked_before_their_turn() -> None:
    layers = 24
    w = [mx.random.normal((512, 512), key=mx.random.key(i)) for i in range(layers)]
    packed = [Packed(*mx.quantize(each, 64, 4), 64, 4) for each in w]
    x = mx.random.normal((128, 512), key=mx.random.key(3))
    mx.eval(packed, x)
    nbytes = sum(each.nbytes for each in w)
    del w
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for each in packed:
        x = each.unpacked_times(x) * 0.01
    mx.eval(x)
    assert mx.get_peak_memory() - before < nbytes / 2


def test_unpacked_weights_differentiate_and_map_as_packed_ones() -> None:
    packed = Packed(*mx.quantize(mx.random.normal((64, 64), key=mx.random.key(0)), 64, 4), 64, 4)
    x = mx.random.normal((2, 8, 64), key=mx.random.key(1))
    found = mx.grad(lambda x: packed.unpacked_times(x).sum())(x)
    assert mx.allclose(found, mx.grad(lambda x: packed.times(x).sum())(x), atol=1e-4)
    assert mx.allclose(mx.vmap(lambda x: packed.unpacked_times(x))(x), packed.times(x), atol=1e-4)


def test_what_the_host_must_do_more_counts_against_unpacked_weights(
    store: str, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model's prompt waits for Python, and a product of unpacked weights is more calls."""
    monkeypatch.setattr(unpacked, "more_host_us", lambda *_: 1e9)
    model = _model()
    expected = model(_x(200))
    optimize_model(model, Measuring(store, "simulator"))
    model(_x(200))
    runs.clear()
    assert mx.array_equal(model(_x(200)), expected)
    assert not runs


def test_building_is_timed_without_computing() -> None:
    w = mx.random.normal((64, 256), key=mx.random.key(2))
    packed = Packed(*mx.quantize(w, 64, 4), 64, 4)
    assert 0 < unpacked.more_host_us(mx.zeros((128, 256)), packed, None) < 1000


def _experts() -> QuantizedSwitchLinear:
    mx.random.seed(0)
    # MLX's processor backend gathers matrices of this dtype only.
    layer = QuantizedSwitchLinear(128, 64, 8, bias=True, group_size=64, bits=4)
    layer.set_dtype(mx.float32)
    return layer


def _sorted_rows(rows: int) -> tuple[mx.array, mx.array]:
    x = mx.random.normal((rows, 1, 128), key=mx.random.key(1))
    indices = mx.sort(mx.random.randint(0, 8, (rows,), key=mx.random.key(2)))
    return x, indices.astype(mx.uint32)


def test_experts_of_many_sorted_rows_are_unpacked(store: str, runs: list[int]) -> None:
    model = Sequential(_experts())  # type: ignore[no-untyped-call]
    x, indices = _sorted_rows(256)
    (layer,) = model.layers
    expected = layer(x, indices, sorted_indices=True)
    optimize_model(model, Measuring(store, "simulator"))
    found = layer(x, indices, sorted_indices=True)
    assert mx.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert runs.count(256) > 3
    with closing(sqlite3.connect(store)) as database:
        ((kept,),) = database.execute("SELECT is_kept FROM machine_trial").fetchall()
    runs.clear()
    layer(x, indices, sorted_indices=True)
    assert runs == [256] * kept
    runs.clear()
    # Rows of several experts each, as they are before they are sorted, stay packed.
    few = mx.broadcast_to(indices[:, None], (256, 2))
    several = layer(x[:, None], few)
    assert mx.allclose(several[:, 1, 0], expected[:, 0], rtol=0.05, atol=0.05)
    assert not runs


@pytest.mark.parametrize("shape", [(64, 256), (4, 64, 256)])
def test_a_kernel_of_the_store_unpacks_in_the_place_of_mlx(
    shape: tuple[int, ...], store: str
) -> None:
    dtype = mx.bfloat16 if len(shape) == 2 else mx.float32
    w = mx.random.normal(shape, key=mx.random.key(2)).astype(dtype)
    packed = Packed(*mx.quantize(w, 64, 4), 64, 4)
    task = packed.product(mx.zeros((128, 256), dtype)).unpacking
    spec = SearchSpec(device="simulator", candidates_per_task=1, jobs=1)
    with KernelStore(store) as opened:
        engine = Engine(opened, spec, offline_team(), TrustingJudge)
        engine.run(captured_graphs({"unpack": task}, "test"))
    server = KernelServer(store, "simulator")
    (offer,) = server.serve(task).offers
    server.settle(offer, packed.matrix)
    (run,) = server.serve(task).programs.values()
    (made,) = run(packed.matrix)
    # Rounded once, where MLX's processor backend rounds a product and a sum.
    words, *scales = packed.matrix
    exact = packed.unpacked((words, *(a.astype(mx.float32) for a in scales)))
    assert mx.allclose(made, exact.astype(dtype), rtol=1e-5, atol=1e-5)
    x = mx.random.normal((3, 1, 256), key=mx.random.key(3)).astype(dtype)
    if len(shape) == 3:
        experts = Experts(mx.array([0, 3, 3], mx.uint32), is_sorted=True)
        packed = packed._replace(experts=experts)
    times = packed.unpacked_times(x)
    assert mx.allclose(packed.unpacked_times(x, run), times, rtol=0.05, atol=0.5)


def test_what_does_not_run_here_is_asked_once(store: str, runs: list[int]) -> None:
    """MLX's processor backend multiplies chosen matrices in float32 only."""
    layer = _experts()
    layer.set_dtype(mx.bfloat16)
    model = Sequential(layer)  # type: ignore[no-untyped-call]
    x, indices = _sorted_rows(256)
    expected = layer(x.astype(mx.bfloat16), indices, sorted_indices=True)
    optimize_model(model, Measuring(store, "simulator"))
    for _ in range(2):
        found = layer(x.astype(mx.bfloat16), indices, sorted_indices=True)
        assert mx.array_equal(found, expected)
    with closing(sqlite3.connect(store)) as database:
        ((kept, reason),) = database.execute("SELECT is_kept, reason FROM machine_trial").fetchall()
    assert not kept
    assert reason.startswith("it does not run here: [GatherMM")
    assert runs.count(256) <= 1
