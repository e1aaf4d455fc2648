"""Every test of the agents runs with keys of its own and no proxy."""

import pytest

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
