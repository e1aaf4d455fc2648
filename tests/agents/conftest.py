"""Every test of the agents runs with keys of its own and no proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.campaign.execution.judge import judge_on
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.store import KernelStore
from tests.agents.loopback.loop import Shared

SECRET = "sk-test-5ecre7-0123456789"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "KERNELWRIGHT_PRICES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def secret() -> str:
    return SECRET


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def judge() -> Iterator[Shared]:
    judge = judge_on("simulator", EvaluatorConfig())
    yield Shared(judge)
    judge.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened
