"""The tests' one task is so small that a plain kernel is at its floor, where nobody is asked."""

import pytest


@pytest.fixture(autouse=True)
def _above_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.agents.roles.coder.is_at_floor", lambda *_: False)
