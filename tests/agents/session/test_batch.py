"""Batches through the real SDKs: gathered, half the price, the same protocol."""

import json
import time
from collections.abc import Sequence

import pytest

from kernelwright.agents.budget import Budget, Caps
from kernelwright.agents.providers.fault import OutageError, ReplyError
from kernelwright.agents.providers.price import Price
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import (
    AsyncBridge,
    ChatSettings,
    MemoryLedger,
    ModelSpec,
    PriceTable,
    RecordedCall,
    load_prices,
    open_model,
)
from kernelwright.agents.session.spec import limits_of, price_of
from kernelwright.errors import ModelError
from tests.agents.loopback.batch import Batches
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import PURPOSE, QUICK, Verse, prompt
from tests.agents.loopback.scene import DEVICE, TASK
from tests.agents.loopback.server import LoopbackServer, Refused, Script
from tests.agents.loopback.wire import Body, Heard, Said
from tests.agents.session.test_session import ENGINEER, turns

FAST = ChatSettings(
    limits=QUICK.limits.model_copy(update={"gather_s": 0.2, "poll_s": 0.01, "batch_s": 60.0}),
    patience=QUICK.patience,
    concurrency=8,
)
VERSE = json.dumps({"line": "waves", "times": 3})
PRICES = {"anthropic:x": Price(input=2.0, output=10.0), "openai:x": Price(input=2.0, output=10.0)}


@pytest.fixture(params=["anthropic-batch", "openai-batch"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Talk:
    """A model that is asked by the batch, with its ledger and budget."""

    def __init__(
        self,
        server: LoopbackServer,
        kind: str,
        caps: Caps | None = None,
        known: Sequence[RecordedCall] = (),
    ) -> None:
        url = server.base_url("anthropic" if kind.startswith("anthropic") else "openai")
        self.ledger = MemoryLedger(known)
        self.budget = Budget(caps or Caps())
        model = open_model(
            [ModelSpec.parse(f"{kind}:x", url)],
            ledger=self.ledger,
            budget=self.budget,
            recorded=lambda _: (),
            settings=FAST,
            prices=PRICES,
        )
        assert model is not None
        self.bridge = AsyncBridge(model)


def test_what_is_asked_together_is_one_batch_at_half_the_price(kind: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        talk = Talk(server, kind)
        with talk.bridge as bridge:
            answers = [bridge.submit(prompt(str(n)), Verse, PURPOSE) for n in range(5)]
            found = [answer.result(timeout=120) for answer in answers]
        bills, sizes = server.bills, server.batches.sizes
    assert all(answer.record.times == 3 for answer in found)
    assert sum(sizes) == 5
    assert len(sizes) < 5
    dollars = sum(b.input_tokens * 1.0 + b.output_tokens * 5.0 for b in bills) / 1e6
    assert talk.budget.spent().dollars == pytest.approx(dollars, abs=1e-9)


@pytest.mark.sampled(1)
def test_a_conversation_with_tools_is_held_by_the_batch(kind: str, judge: Shared) -> None:
    script = turns(*ENGINEER)
    with LoopbackServer(lambda _: next(script)) as server:
        talk = Talk(server, kind)
        with talk.bridge as bridge:
            (proposal,) = ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        second = json.loads(server.requests[1].body)
    assert proposal.author == f"{kind}:x"
    said = json.dumps(second.get("input") or second["messages"])
    assert "5igned" in said or "5ealed" in said


def test_what_expires_with_its_batch_is_asked_again_and_not_paid_for(kind: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        server.batches.loses = 1
        talk = Talk(server, kind)
        with talk.bridge as bridge:
            assert bridge.ask(prompt("One."), Verse, PURPOSE).record.times == 3
        assert server.batches.sizes == [1, 1]
    lost, paid = talk.ledger.calls()
    assert lost.cost.dollars == 0
    assert paid.cost.dollars > 0


def test_a_look_that_fails_buys_no_second_batch(kind: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        server.batches.failing_looks = 4
        talk = Talk(server, kind)
        with talk.bridge as bridge:
            assert bridge.ask(prompt("One."), Verse, PURPOSE).record.times == 3
        assert server.batches.sizes == [1]
    assert len(talk.ledger.calls()) == 1


@pytest.mark.sampled(1)
def test_a_batch_that_no_look_reaches_any_more_counts_at_its_worst(kind: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        server.batches.failing_looks = 10_000
        talk = Talk(server, kind)
        with talk.bridge as bridge, pytest.raises(OutageError, match="no look at the batch"):
            bridge.ask(prompt("One."), Verse, PURPOSE)
    assert all(call.cost == call.call.worst.as_assumed for call in talk.ledger.calls())


def left_in_flight(server: LoopbackServer, kind: str, *, killed: bool) -> list[RecordedCall]:
    """What a process knew that was killed, or interrupted, while a batch of two ran."""
    server.batches.is_held_up = True
    talk = Talk(server, kind)
    for words in ("One.", "Two."):
        talk.bridge.submit(prompt(words), Verse, PURPOSE)
    while not server.batches.sizes or not all(call.place for call in talk.ledger.calls()):
        time.sleep(0.01)
    known = talk.ledger.calls()
    talk.bridge.close()
    server.batches.is_held_up = False
    return list(known if killed else talk.ledger.calls())


@pytest.mark.parametrize("killed", [True, False])
def test_a_batch_that_outlives_its_process_is_fetched_by_the_next(kind: str, killed: bool) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        known = left_in_flight(server, kind, killed=killed)
        talk = Talk(server, kind, Caps(dollars=sum(c.call.worst.dollars for c in known)), known)
        with talk.bridge as bridge:
            answers = [bridge.submit(prompt(words), Verse, PURPOSE) for words in ("One.", "Two.")]
            assert all(answer.result(timeout=60).record.times == 3 for answer in answers)
        assert server.batches.sizes == [2]
        dollars = sum(b.input_tokens * 1.0 + b.output_tokens * 5.0 for b in server.bills) / 1e6
    assert [call.has_reply for call in talk.ledger.calls()] == [True, True]
    assert talk.budget.spent().dollars == pytest.approx(dollars, abs=1e-9)


def test_what_its_batch_lost_meanwhile_is_asked_for_again(kind: str) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        server.batches.loses = 2
        known = left_in_flight(server, kind, killed=True)
        talk = Talk(server, kind, known=known)
        with talk.bridge as bridge:
            assert bridge.ask(prompt("One."), Verse, PURPOSE).record.times == 3
        assert server.batches.sizes == [2, 1]
    assert [call.has_reply for call in talk.ledger.calls()] == [False, False, True]


@pytest.mark.parametrize(
    ("code", "words", "error", "told"),
    [
        ("token_limit_exceeded", "Enqueued token limit reached.", OutageError, "stayed busy"),
        ("invalid_json_line", "Line 1 is no JSON.", ModelError, "refused the request"),
    ],
)
def test_a_batch_that_is_refused_as_a_whole_costs_nothing(
    code: str, words: str, error: type[ModelError], told: str
) -> None:
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        server.batches.refusal = {"code": code, "message": words}
        talk = Talk(server, "openai-batch")
        with talk.bridge as bridge, pytest.raises(error, match=f"{told} .*{words}"):
            bridge.ask(prompt("One."), Verse, PURPOSE)
    assert talk.budget.spent().dollars == 0


def test_a_feature_that_a_batch_refuses_is_given_up(kind: str) -> None:
    def script(request: Heard) -> Said | Refused:
        if request.has_schema:
            return Refused(400, "output_config.format / text.format is not supported")
        return Said(VERSE, style="text")

    answering: Script = script
    with LoopbackServer(answering) as server:
        with Talk(server, kind).bridge as bridge:
            assert bridge.ask(prompt("One."), Verse, PURPOSE).record.times == 3
        assert server.batches.sizes == [1, 1]


def test_what_no_retry_mends_is_said_in_a_sentence(kind: str) -> None:
    with (
        LoopbackServer(lambda _: Refused(400, "temperature is unknown")) as server,
        Talk(server, kind).bridge as bridge,
        pytest.raises(ModelError, match="refused the request"),
    ):
        bridge.ask(prompt("One."), Verse, PURPOSE)


def body(**fields: object) -> str:
    answer = {"id": "resp", "model": "x", "output": [], "status": "completed", **fields}
    line = {"custom_id": "", "response": {"status_code": 200, "body": answer}, "error": None}
    return json.dumps(line)


def answer_with(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Have OpenAI's batches answer every request with one line."""

    def answered(self: Batches, asked: Body) -> str:
        return json.dumps({**json.loads(line), "custom_id": asked["custom_id"]})

    monkeypatch.setattr(Batches, "_response", answered)


def test_a_batch_may_leave_out_what_a_stream_may(monkeypatch: pytest.MonkeyPatch) -> None:
    text = {"type": "output_text", "text": VERSE, "annotations": []}
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    said = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    answer_with(monkeypatch, body(output=[said], usage=usage))
    with LoopbackServer(lambda _: Said(VERSE)) as server:
        talk = Talk(server, "openai-batch")
        with talk.bridge as bridge:
            assert bridge.ask(prompt("One."), Verse, PURPOSE).record.times == 3
        assert server.batches.sizes == [1]
    assert talk.budget.spent().tokens == 14


@pytest.mark.parametrize(
    ("code", "error", "told"),
    [
        ("rate_limit_exceeded", OutageError, "stayed busy"),
        ("server_error", OutageError, "broke off every reply"),
        ("invalid_prompt", ReplyError, "refused .*; try another model"),
    ],
)
def test_a_response_that_failed_in_its_batch_is_told_with_its_words(
    monkeypatch: pytest.MonkeyPatch, code: str, error: type[ModelError], told: str
) -> None:
    answer_with(monkeypatch, body(status="failed", error={"code": code, "message": "No luck"}))
    with (
        LoopbackServer(lambda _: Said(VERSE)) as server,
        Talk(server, "openai-batch").bridge as bridge,
        pytest.raises(error, match=told) as raised,
    ):
        bridge.ask(prompt("One."), Verse, PURPOSE)
    assert "No luck" in str(raised.value)


def test_prices_are_halved_and_a_reply_may_take_a_day(kind: str) -> None:
    spec = ModelSpec.parse(f"{kind}:x")
    table = PriceTable(load_prices().date, PRICES)
    price = price_of(spec, table)
    assert price is not None
    assert (price.input, price.output) == (1.0, 5.0)
    assert limits_of(spec, QUICK.limits).total_s == QUICK.limits.batch_s == 86_400
