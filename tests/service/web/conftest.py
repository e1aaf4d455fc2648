"""One store that a real search and a real conversation filled, and a client of the API over it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fastapi.testclient import TestClient

from kernelwright.campaign.execution.judge import judge_on
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.service.api.app import create_app
from kernelwright.service.api.guard import Access
from kernelwright.store import KernelStore
from tests.agents.loopback.loop import Shared, search
from tests.agents.loopback.model import SCENARIOS
from tests.agents.loopback.partner import NAMES
from tests.agents.loopback.server import LoopbackServer

KEY = "sk-test-5ecre7-0123456789"
BASE = "http://127.0.0.1:8737"


@dataclass(frozen=True)
class Filled:
    """A store's address and what is in it."""

    url: str
    campaign_id: str
    task_id: str
    champion_id: str
    child_id: str
    """A candidate that descends from another."""


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """Search a small function on the simulator with a model of the loopback's."""
    path = tmp_path_factory.mktemp("page") / "kernels.db"
    judge = judge_on("simulator", EvaluatorConfig())
    name = f"openai:{NAMES['openai']}"
    with (
        pytest.MonkeyPatch.context() as patch,
        KernelStore(str(path)) as store,
        LoopbackServer(SCENARIOS["wrong at the tail, then fixed"]()) as server,
    ):
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("NO_PROXY", "127.0.0.1")
        report = search(store, Shared(judge), name, server.base_url("openai"))
        champion_id = report.tasks[0].champion_id
        assert champion_id is not None
        candidates = {e.candidate_id for e in store.history()}
        child_id = next(c for c in sorted(candidates) if store.show(c).lineage)
        yield Filled(
            store.url,
            store.campaigns()[0].id,
            report.tasks[0].task_id,
            champion_id,
            child_id,
        )
    judge.close()


@pytest.fixture
def store(filled: Filled) -> Iterator[KernelStore]:
    with KernelStore(filled.url, must_exist=True) as opened:
        yield opened


@pytest.fixture
def client(store: KernelStore) -> TestClient:
    return TestClient(create_app(store, Access()), base_url=BASE)
