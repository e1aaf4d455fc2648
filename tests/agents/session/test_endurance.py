"""A campaign's worth of calls through a bad network, and a kill in the middle of one."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.session import AsyncBridge, ModelSpec, open_model
from kernelwright.agents.session.ledger import MemoryLedger
from kernelwright.errors import BudgetError
from tests.agents.loopback.journal import Journal
from tests.agents.loopback.partner import PURPOSE, QUICK, Partner, Verse, prompt
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Response
from tests.agents.loopback.wire import Heard, Said

ROOT = Path(__file__).parents[3]
CALLS = 500
FEWER = 200


def verse(number: int) -> str:
    return json.dumps({"line": "waves", "times": number})


def number_in(request: Heard) -> int:
    match = re.search(r"^number (\d+)$", request.messages[0][1], re.MULTILINE)
    assert match is not None
    return int(match[1])


class FaultPlan:
    """Which request meets which fault, drawn once from a seed; a burst is a run of faults."""

    KINDS: tuple[Response, ...] = (
        Misbehaviour("busy"),
        Misbehaviour("overloaded"),
        Misbehaviour("unavailable"),
        Misbehaviour("half"),
        Misbehaviour("reset"),
        Misbehaviour("reset_before"),
        Misbehaviour("garbled_stream"),
        Misbehaviour("stall", stall_s=0.5),
        Misbehaviour("huge"),
        Said('{"line": "waves", "times": ', style="tool"),
        Said("no JSON today", style="text"),
        Said('{"city": "Oslo"}'),
    )
    WEIGHTS = (8, 8, 4, 4, 4, 4, 3, 1, 0.3, 3, 3, 3)

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.plan: dict[int, list[Response]] = {}
        self.met = Counter[str]()
        for number in range(CALLS):
            faults: list[Response] = []
            if draw.random() < 0.3:
                faults = draw.choices(self.KINDS, self.WEIGHTS, k=1)
                if isinstance(faults[0], Misbehaviour) and faults[0].name == "busy":
                    faults *= draw.randint(1, 4)
            self.plan[number] = faults

    def __call__(self, request: Heard) -> Response:
        number = number_in(request)
        if not self.plan[number]:
            return Said(verse(number))
        fault = self.plan[number].pop(0)
        self.met[fault.name if isinstance(fault, Misbehaviour) else "unusable"] += 1
        return fault


@pytest.mark.sampled(1)
def test_500_calls_through_a_bad_network_lose_nothing(provider: str) -> None:
    plan = FaultPlan(seed=7)
    # Room for every call and its repetitions, and not for much more.
    caps = Caps(calls=2 * CALLS, tokens=4_000_000, dollars=20.0)
    with LoopbackServer(plan) as server:
        partner = Partner(server, provider, caps=caps)
        with AsyncBridge(partner.open()) as board:
            answers = [board.submit(prompt(f"number {n}"), Verse, PURPOSE) for n in range(CALLS)]
            got = [answer.result(timeout=60).record.times for answer in answers]
    assert got == list(range(CALLS))
    assert len(plan.met) == 10
    assert partner.budget.spent().tokens >= server.billed_tokens
    assert partner.budget.spent().calls == len(server.requests) == len(partner.ledger.calls())
    assert not caps.are_exceeded_by(partner.budget.spent())


def test_caps_hold_through_a_bad_network(provider: str) -> None:
    cap = Caps(tokens=50_000)
    with LoopbackServer(FaultPlan(seed=11)) as server:
        partner = Partner(server, provider, caps=cap)
        with AsyncBridge(partner.open()) as board:
            answers = [board.submit(prompt(f"number {n}"), Verse, PURPOSE) for n in range(FEWER)]
            ends = Counter(type(answer.exception(timeout=60)) for answer in answers)
    assert set(ends) == {type(None), BudgetError}
    assert ends[type(None)] > 20
    assert server.billed_tokens <= partner.budget.spent().tokens <= 50_000


@pytest.mark.sampled(1)
def test_a_kill_in_the_middle_of_a_call_pays_for_no_reply_twice(
    provider: str, tmp_path: Path
) -> None:
    journal = tmp_path / "calls.jsonl"
    asked = Counter[int]()
    victim: list[subprocess.Popen[str]] = []

    def script(request: Heard) -> Response:
        number = int(request.messages[0][1].split()[-1])
        asked[number] += 1
        if number == 3 and asked[number] == 1:
            os.kill(victim[0].pid, signal.SIGKILL)
        return Said(verse(number))

    def start(server: LoopbackServer) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.agents.loopback.killed", provider, str(journal)]
        return subprocess.Popen(
            [*command, server.base_url(provider)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )

    with LoopbackServer(script) as server:
        victim.append(start(server))
        said, _ = victim[0].communicate(timeout=120)
        assert said.split() == ["0", "1", "2"]
        assert victim[0].returncode == -signal.SIGKILL
        said, _ = start(server).communicate(timeout=120)
    # Six replies and the call whose reply nobody heard, at its worst case.
    assert said.split() == ["0", "1", "2", "3", "4", "5", "7"]
    assert asked == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    lost = [recorded for recorded in Journal(journal).calls() if recorded.outcome is None]
    assert len(lost) == 1
    assert lost[0].cost == lost[0].call.worst.as_assumed


def test_a_replay_needs_no_server_and_says_the_same(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [Said("not yet", style="text"), Said(verse(1)), Said(verse(2)), Said(verse(3))]
    with LoopbackServer(lambda _: replies.pop(0)) as server:
        partner = Partner(server, provider)
        with AsyncBridge(partner.open()) as board:
            live = [board.ask(prompt(words), Verse, PURPOSE) for words in "abc"]
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    model = open_model(
        [ModelSpec.parse("replay:first")],
        ledger=MemoryLedger(),
        budget=Partner(server, provider, caps=Caps(dollars=0)).budget,
        recorded=lambda campaign: partner.ledger.calls() if campaign == "first" else (),
        settings=QUICK,
    )
    assert model is not None
    with AsyncBridge(model) as board:
        # The third prompt differs, as one that quotes a measured time would.
        again = [board.ask(prompt(words), Verse, PURPOSE) for words in "abx"]
    assert [(a.record, a.model) for a in again] == [(a.record, a.model) for a in live]
