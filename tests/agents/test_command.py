"""`kernelwright search --model` as a person types it, killed in the middle of a call and again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.campaign.history.resuming import history_of
from kernelwright.store import KernelStore
from tests.agents.loopback.model import SCENARIOS, moment_of
from tests.agents.loopback.partner import NAMES
from tests.agents.loopback.scene import COLUMNS, DONE, ROWS
from tests.agents.loopback.server import LoopbackServer, Response
from tests.agents.loopback.wire import Heard

FILE = f"""\
import mlx.core as mx


def double_plus_one(x):
    return x * 2.0 + 1.0


def example_inputs():
    return (mx.zeros(({ROWS}, {COLUMNS})),)
"""


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    (tmp_path / "double.py").write_text(FILE)
    store = str(tmp_path / "kernels.db")
    command = [sys.executable, "-m", "kernelwright", "search", str(tmp_path / "double.py")]
    limits = ["--candidates", "6", "--jobs", "1", "--json", "--store", store]
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *limits, *options], stdout=pipe, stderr=pipe, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("provider", ["anthropic"])
def test_a_model_is_searched_with_from_the_command_line_and_replayed_without_a_key(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(SCENARIOS["compile error, then fixed"]()) as server:
        url = server.base_url(provider)
        out = finished(
            start(tmp_path, "--model", name, "--base-url", url, "--budget", "1", "--repairs", "3")
        )
    first = json.loads(out)
    assert first["tasks"][0]["champion_id"]
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    model = f"replay:{first['campaign_id'][:8]}"
    again = json.loads(finished(start(tmp_path, "--model", model, "--repairs", "3")))
    with KernelStore(str(tmp_path / "kernels.db"), must_exist=True) as store:
        runs = [
            [(e.candidate_id, e.author, e.status) for e in store.history(campaign=campaign)]
            for campaign in (first["campaign_id"], again["campaign_id"])
        ]
    assert runs[0] == runs[1]
    assert {author for _, author, _ in runs[0]} == {"offline", name}


@pytest.mark.parametrize(
    ("provider", "moment"), [("openai", "planner"), ("anthropic", "coder"), ("openai", "verdict")]
)
@pytest.mark.sampled(1)
def test_a_search_killed_in_a_call_goes_on_where_it_was(
    tmp_path: Path, provider: str, moment: str
) -> None:
    model = SCENARIOS["race, then fixed"]()
    running: list[subprocess.Popen[str]] = []

    def deadly(request: Heard) -> Response:
        if moment_of(request) == moment and len(running) == 1 and running[0].poll() is None:
            os.kill(running[0].pid, signal.SIGKILL)
            return DONE
        return model(request)

    with LoopbackServer(deadly) as server:
        url = server.base_url(provider)
        options = ("--model", f"{provider}:{NAMES[provider]}", "--base-url", url)
        running.append(start(tmp_path, *options))
        _, err = running[0].communicate(timeout=300)
        assert running[0].returncode == -signal.SIGKILL, err
        running.append(start(tmp_path, *options))
        report = json.loads(finished(running[1]))
    assert model.asked.count("planner") == 1
    with KernelStore(str(tmp_path / "kernels.db"), must_exist=True) as store:
        tried = history_of(store, report["campaign_id"], task=None, status=None, limit=99)
        ideas = [(e.idea, e.status) for e in tried]
        calls = [c for run in store.campaigns() for c in store.dialogue.calls(run.id)]
    assert ("Through a tile.", "correct") in ideas
    assert sum(call.outcome is None for call in calls) == 1
    assert sum(call.outcome is not None for call in calls) == len(model.asked)
