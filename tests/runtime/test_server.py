"""The server notices when the store's champions change, and nothing else."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import StoreError
from kernelwright.runtime import server as module
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore, MachineTrial
from tests.runtime.test_optimize import SHAPE, crown, gated


@pytest.fixture(autouse=True)
def looking_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.0)


def test_new_champions_are_noticed(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    server = KernelServer(url, "simulator")
    before = server.generation()
    assert not server.has_champions
    crown(url, gated, mx.zeros(SHAPE), mx.zeros(SHAPE))
    found = server.generation()
    assert found > before
    assert server.has_champions


def test_revoked_champions_are_noticed(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, mx.zeros(SHAPE), mx.zeros(SHAPE))
    server = KernelServer(url, "simulator")
    before = server.generation()
    with KernelStore(url) as store:
        (champion,) = store.best()
        store.settle(champion, "revoked")
    assert server.generation() > before


def test_opening_a_store_is_no_change(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, mx.zeros(SHAPE), mx.zeros(SHAPE))
    server = KernelServer(url, "simulator")
    before = server.generation()
    for _ in range(3):
        assert server.has_champions
        with KernelStore(url) as store:
            store.want([])
        assert server.generation() == before


def test_a_store_that_lacks_a_column_serves_nothing_and_says_so(tmp_path: Path) -> None:
    url = str(tmp_path / "kernels.db")
    crown(url, gated, mx.zeros(SHAPE), mx.zeros(SHAPE))
    with closing(sqlite3.connect(url)) as database, database:
        database.execute("ALTER TABLE champion RENAME COLUMN speedup TO gain")
    server = KernelServer(url, "simulator")
    server.generation()
    assert not server.has_champions
    with KernelStore(url) as store, pytest.raises(StoreError, match="lacks what its schema has"):
        store.best()
    found = Optimized(gated, KernelServer(url, "simulator"))
    one = mx.ones(SHAPE)
    assert mx.array_equal(cast("mx.array", found(one, one)), gated(one, one))


def matmuls(x: mx.array, a: mx.array, b: mx.array) -> list[mx.array]:
    return [x @ a, x @ b]


@pytest.mark.parametrize(
    ("kernel_us", "weighs_steps", "is_kept"),
    [(12.0, True, True), (12.0, False, False), (16.0, True, False), (None, True, False)],
)
def test_a_model_may_be_served_what_saves_it_launches(
    kernel_us: float | None, weighs_steps: bool, is_kept: bool
) -> None:
    x = mx.zeros((1, 8))
    task = ir.canonicalize(ir.capture(matmuls, x, mx.zeros((8, 8)), mx.zeros((8, 8))))
    server = KernelServer()
    server.weighs_steps = weighs_steps
    trial = MachineTrial(
        task_id="",
        candidate_id="",
        device="cuda",
        chip="",
        runtime="",
        is_kept=False,
        kernel_us=kernel_us,
        mlx_us=10.0,
        reason="slower by itself",
    )
    assert server._is_kept(trial, task) is is_kept
