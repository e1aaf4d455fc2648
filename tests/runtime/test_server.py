"""The server notices when the store's champions change, and nothing else."""

from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.runtime import server as module
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
