"""Quantized layers multiply by unpacked weights in prefill where that is faster on the machine."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.nn.layers.containers import Sequential
from mlx.nn.layers.quantized import QuantizedLinear

from kernelwright.runtime.models import unpacked
from kernelwright.runtime.models.install import optimize_model, restore_model
from kernelwright.runtime.models.unpacked import Packed, errors
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore


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

    def counted(self: Packed, x: mx.array) -> mx.array:
        found.append(x.size // x.shape[-1])
        return own(self, x)

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

    def late(self: Packed, x: mx.array) -> mx.array:
        time.sleep(0.02)
        return counted(self, x)

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
    assert 0 < unpacked.more_host_us(mx.zeros((128, 256)), packed) < 1000
