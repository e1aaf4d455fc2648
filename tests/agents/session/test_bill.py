"""What is booked for a call is what the provider's own rules make of its usage."""

import json
from pathlib import Path

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.providers.price import PRICES_VARIABLE
from kernelwright.agents.session import AsyncBridge
from kernelwright.errors import BudgetError
from tests.agents.loopback.partner import PURPOSE, Partner, Verse, prompt
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Raw
from tests.agents.loopback.wire import Said

VERSE = '{"line": "Waves.", "times": 2}'
ROWS = """date = 2026-12-01
[anthropic]
claude-sonnet-5 = { input = 30.0, output = 150.0, cache_read = 3.0 }
[openai]
gpt-5 = { input = 20.0, output = 80.0, cache_read = 2.0 }
"""
# Dollars for a million tokens of each kind, by what the providers publish: reading from the cache
# at its own price, writing for minutes at 1.25 times the input's and for an hour at twice.
CLAUDE = {"input": 30.0, "output": 150.0, "read": 3.0, "write": 37.5, "hour": 60.0}
GPT = {"input": 20.0, "output": 80.0, "read": 2.0, "write": 25.0}
Bill = tuple[str, dict[str, object], dict[str, int]]
BILLS: list[Bill] = [
    ("anthropic", {"input_tokens": 100, "output_tokens": 7}, {"input": 100, "output": 7}),
    (
        "anthropic",
        {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 900},
        {"input": 5, "output": 7, "read": 900},
    ),
    (
        "anthropic",
        {"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": 900},
        {"input": 5, "output": 7, "write": 900},
    ),
    (
        "anthropic",
        {
            "input_tokens": 5,
            "output_tokens": 70,
            "output_tokens_details": {"thinking_tokens": 60},
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 900,
            "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 600},
        },
        {"input": 5, "output": 70, "read": 40, "write": 300, "hour": 600},
    ),
    (
        "anthropic",
        {
            "input_tokens": 5,
            "output_tokens": 7,
            "cache_read_input_tokens": None,
            "cache_creation_input_tokens": None,
            "cache_creation": None,
            "server_tool_use": None,
        },
        {"input": 5, "output": 7},
    ),
    (
        "openai-responses",
        {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
            "output_tokens": 70,
            "output_tokens_details": {"reasoning_tokens": 60},
            "total_tokens": 1070,
        },
        {"input": 100, "read": 600, "write": 300, "output": 70},
    ),
    (
        "openai-responses",
        {"input_tokens": 1000, "output_tokens": 70, "total_tokens": 1070},
        {"input": 1000, "output": 70},
    ),
    (
        "openai-responses",
        {
            "input_tokens": 1000,
            "input_tokens_details": None,
            "output_tokens": 70,
            "output_tokens_details": None,
            "total_tokens": 1070,
        },
        {"input": 1000, "output": 70},
    ),
    (
        "openai",
        {
            "prompt_tokens": 1000,
            "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
            "completion_tokens": 70,
            "completion_tokens_details": {"reasoning_tokens": 60},
            "total_tokens": 1070,
        },
        {"input": 100, "read": 600, "write": 300, "output": 70},
    ),
    (
        "openai",
        {"prompt_tokens": 1000, "completion_tokens": 70, "total_tokens": 1070},
        {"input": 1000, "output": 70},
    ),
]


@pytest.fixture(autouse=True)
def own_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(ROWS)
    monkeypatch.setenv(PRICES_VARIABLE, str(path))


@pytest.mark.parametrize(("wire", "told", "parts"), BILLS)
def test_every_kind_of_token_is_booked_as_it_is_billed(
    wire: str, told: dict[str, object], parts: dict[str, int]
) -> None:
    with LoopbackServer(lambda _: Said(VERSE, usage=told)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=9.0))
        cost = partner.ask().cost
    prices = CLAUDE if wire == "anthropic" else GPT
    assert cost.dollars == pytest.approx(sum(n * prices[kind] for kind, n in parts.items()) / 1e6)
    assert cost.tokens == sum(parts.values())
    assert partner.budget.spent() == cost


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        ("anthropic", {"input_tokens": -900_000, "output_tokens": 5}),
        ("anthropic", {"input_tokens": "many", "output_tokens": 5}),
        ("openai", {"prompt_tokens": -900_000, "completion_tokens": -5, "total_tokens": 0}),
        ("openai-responses", {"input_tokens": None, "output_tokens": None, "total_tokens": None}),
        ("anthropic", {"input_tokens": 0, "output_tokens": 0}),
        ("openai", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        ("openai-responses", {"input_tokens": 900, "output_tokens": 0, "total_tokens": 900}),
    ],
)
def test_counts_that_are_none_are_replaced_by_bytes(wire: str, told: dict[str, object]) -> None:
    with LoopbackServer(lambda _: Said(VERSE, usage=told)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=9.0))
        cost = partner.ask().cost
    assert cost.tokens >= len(VERSE)
    assert cost.dollars > 0


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
def test_a_reply_that_had_begun_counts_at_its_worst_whatever_ended_it(wire: str) -> None:
    script = iter((Misbehaviour("overloaded_later"), Said(VERSE)))
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=9.0))
        partner.ask()
    broken, whole = partner.ledger.calls()
    assert not broken.has_reply
    assert broken.cost == broken.call.worst.as_assumed
    assert partner.budget.spent() == broken.cost + whole.cost


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded"])
def test_a_response_that_failed_is_booked_at_the_usage_that_it_reports(code: str) -> None:
    event = {
        "type": "response.failed",
        "sequence_number": 1,
        "response": {
            "id": "r",
            "object": "response",
            "status": "failed",
            "output": [],
            "usage": {"input_tokens": 1000, "output_tokens": 70, "total_tokens": 1070},
            "error": {"code": code, "message": "No luck"},
        },
    }
    body = f"event: response.failed\ndata: {json.dumps(event)}\n\n".encode()
    script = iter((Raw(200, "text/event-stream", body), Said(VERSE)))
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, "openai-responses", caps=Caps(dollars=9.0))
        partner.ask()
    broken, whole = partner.ledger.calls()
    assert not broken.has_reply
    assert broken.cost.tokens == 1070
    assert broken.cost.dollars == pytest.approx((1000 * GPT["input"] + 70 * GPT["output"]) / 1e6)
    assert partner.budget.spent() == broken.cost + whole.cost


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
def test_a_reply_is_asked_for_no_longer_than_the_caps_have_room_for(wire: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        partner = Partner(server, wire, caps=Caps(tokens=2500))
        with pytest.raises(BudgetError, match=r"cap of .* is reached"):
            ask_until_refused(partner)
        asked = [request.most_tokens for request in server.requests]
    assert asked == sorted(asked, reverse=True)
    assert set(asked) == {800, 400, 200}
    assert partner.budget.spent().tokens <= 2500


def ask_until_refused(partner: Partner) -> None:
    with AsyncBridge(partner.open()) as board:
        for verse in range(1000):
            board.ask(prompt(f"Verse {verse}."), Verse, PURPOSE)


@pytest.mark.parametrize(
    ("wire", "dollars"), [("anthropic", 0.2), ("openai", 0.12), ("openai-responses", 0.12)]
)
def test_a_cap_at_own_prices_is_never_passed(wire: str, dollars: float) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=dollars))
        with pytest.raises(BudgetError, match=r"cap of .* is reached"):
            ask_until_refused(partner)
        prices = CLAUDE if wire == "anthropic" else GPT
        billed = sum(
            (b.input_tokens - b.cached_tokens) * prices["input"]
            + b.cached_tokens * prices["read"]
            + b.output_tokens * prices["output"]
            for b in server.bills
        )
    assert server.bills
    assert partner.budget.spent().dollars == pytest.approx(billed / 1e6)
    assert billed / 1e6 <= dollars


@pytest.mark.parametrize("count", [9 * 10**18, 10**30, 1e30, 10**9])
@pytest.mark.parametrize(
    ("wire", "names"),
    [
        ("anthropic", ("input_tokens", "output_tokens", "cache_read_input_tokens")),
        ("openai", ("prompt_tokens", "completion_tokens", "total_tokens")),
        ("openai-responses", ("input_tokens", "output_tokens", "total_tokens")),
    ],
)
def test_counts_beyond_what_a_request_can_take_are_booked_at_most(
    wire: str, names: tuple[str, ...], count: float
) -> None:
    usage: dict[str, object] = dict.fromkeys(names, count)
    with LoopbackServer(lambda _: Said(VERSE, usage=usage)) as server:
        partner = Partner(server, wire)
        answer = partner.ask()
        (call,) = partner.ledger.calls()
    assert answer.record.times == 2
    assert call.outcome is not None
    assert call.outcome.usage.is_estimate
    assert 0 < answer.cost.tokens <= call.call.worst.tokens
