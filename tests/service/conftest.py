"""A store with one real search in it: found once, asked many times."""

from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.campaign import (
    Engine,
    SearchSpec,
    Subject,
    capture_subjects,
    judges_on,
    offline_team,
)
from kernelwright.service.console import error_console, result_console
from kernelwright.store import KernelStore


@dataclass(frozen=True)
class Searched:
    """Where the store is and what won."""

    url: str
    champion_id: str


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    """Let each test have the terminal that its environment asks for."""
    result_console.cache_clear()
    error_console.cache_clear()


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """Search a small function on the simulator, with the team that needs no model."""

    def double(x: mx.array) -> mx.array:
        return mx.maximum(x * 2, 0.5) + 1

    subject = Subject("double", double, (mx.zeros((8, 32)),), {}, "double.py")
    url = f"sqlite:///{tmp_path_factory.mktemp('searched') / 'kernels.db'}"
    spec = SearchSpec(candidates_per_task=2, jobs=1)
    with KernelStore(url) as store:
        engine = Engine(store, spec, offline_team(), judges_on("simulator"))
        report = engine.run(capture_subjects([subject]))
    champion_id = report.tasks[0].champion_id
    assert champion_id is not None
    return Searched(url, champion_id)


@pytest.fixture
def empty_store(tmp_path: Path) -> str:
    """Make a store with nothing in it, and return where it is."""
    url = str(tmp_path / "empty.db")
    KernelStore(url).close()
    return url
