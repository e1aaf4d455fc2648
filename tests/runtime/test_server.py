"""The server notices when the store's champions change, and nothing else."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

from kernelwright.errors import StoreError
from kernelwright.runtime import server as module
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer
from kernelwright.store import KernelStore
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
