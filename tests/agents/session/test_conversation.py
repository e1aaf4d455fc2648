"""Real SDKs over real sockets: replies, corrections, refusals, and what each request carries."""

import asyncio
import gc
import json
import logging
import re
import traceback
from concurrent.futures import CancelledError
from dataclasses import replace

import pytest
from pydantic import BaseModel

from kernelwright.agents.budget import Caps, Cost
from kernelwright.agents.message import Spent, TimedReply, Turn
from kernelwright.agents.session import (
    AsyncBridge,
    Conversations,
    Limits,
    ModelSpec,
    Prompt,
    Purpose,
    Reply,
    ReplyError,
    Usage,
)
from kernelwright.errors import BudgetError, ModelError, UsageError
from tests.agents.loopback.partner import PURPOSE, QUICK, Partner, Verse, prompt
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Raw, Refused, Response
from tests.agents.loopback.wire import Heard, Said

VERSE = json.dumps({"line": "waves", "times": 3})


class Sequence:
    """Says one thing after another, the last for ever."""

    def __init__(self, *responses: Response) -> None:
        self.responses = list(responses)

    def __call__(self, request: Heard) -> Response:
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]


def test_a_reply_held_to_a_schema_becomes_a_record_with_its_cost(provider: str) -> None:
    with LoopbackServer(Sequence(Said(VERSE))) as server:
        partner = Partner(server, provider)
        answer = partner.ask()
    assert answer.record == Verse(line="waves", times=3)
    assert answer.model == partner.spec.__str__()
    assert answer.cost.tokens == server.billed_tokens
    assert answer.cost.dollars > 0
    assert server.requests[0].has_schema


def test_the_stable_prefix_is_marked_for_caching() -> None:
    with LoopbackServer(Sequence(Said(VERSE))) as server:
        Partner(server, "anthropic").ask()
    assert server.requests[0].cache_marks == 2


def test_text_around_the_json_is_tolerated(provider: str) -> None:
    with LoopbackServer(
        Sequence(Said(f"Sure!\n```json\n{VERSE}\n```\nBye.", style="text"))
    ) as server:
        assert Partner(server, provider).ask().record.times == 3


def test_an_invalid_reply_is_asked_for_once_more_with_the_reason(provider: str) -> None:
    bad = json.dumps({"line": "waves", "times": "often"})
    with LoopbackServer(Sequence(Said(bad), Said(VERSE))) as server:
        answer = Partner(server, provider).ask()
    assert answer.record.times == 3
    assert len(answer.calls) == 2
    speakers = [speaker for speaker, _ in server.requests[1].messages]
    assert speakers == ["user", "assistant", "user"]
    assert "times: expected a whole number" in server.requests[1].messages[-1][1]


def test_two_invalid_replies_end_the_conversation(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Said("no idea", style="text"))) as server,
        pytest.raises(ReplyError, match="no usable reply, asked twice"),
    ):
        Partner(server, provider).ask()
    assert len(server.requests) == 2


def test_a_refusal_is_not_asked_again(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Said("I would rather not.", stop="refused"))) as server,
        pytest.raises(ReplyError, match="refused"),
    ):
        Partner(server, provider).ask()
    assert len(server.requests) == 1


def test_a_cut_off_reply_is_asked_for_again_shorter(provider: str) -> None:
    cut = Said('{"line": "wav', stop="truncated")
    with LoopbackServer(Sequence(cut, Said(VERSE))) as server:
        assert Partner(server, provider).ask().record.times == 3
    assert "cut off" in server.requests[1].messages[-1][1]


@pytest.mark.parametrize(
    ("status", "words", "told"),
    [
        (401, "invalid x-api-key", "refuses the key .*_API_KEY"),
        (403, "Country not supported", "may not be used with this key .*_API_KEY"),
        (403, "<html><h1>Blocked</h1></html>", "is not served there .*--base-url"),
        (404, "<!doctype html><p>nothing here</p>", "is not served there .*--base-url"),
        (407, "<html>Please log in</html>", "is not served there .*wants a login"),
        (400, "Your prompt was flagged", r"refused \(Your prompt was flagged\); try another model"),
        (
            404,
            "Unexpected endpoint /chat/completions",
            r"is not served there .*--base-url to end where its API begins, such as http://127\.0\.0\.1:8080(/v1)?\.$",
        ),
        (404, "model: nope", "is not a model that the server knows"),
        (400, "prompt is too long: 300000 tokens", "does not fit"),
        (400, "temperature is unknown", "refused the request"),
    ],
)
def test_what_no_retry_mends_is_said_in_a_sentence(
    provider: str, status: int, words: str, told: str
) -> None:
    with (
        LoopbackServer(Sequence(Refused(status, words))) as server,
        pytest.raises(ModelError, match=told),
    ):
        Partner(server, provider).ask()
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (429, "insufficient_quota", "has no quota left"),
        (403, "billing_error", "has no quota left"),
        (400, "context_length_exceeded", "the prompt does not fit"),
        (400, "content_policy_violation", r"refused \(Sorry\)"),
        (404, "model_not_found", "is not a model that the server knows"),
    ],
)
@pytest.mark.parametrize("key", ["code", "type"])
def test_the_code_of_an_error_counts_whatever_its_words_are(
    wire: str, status: int, code: str, told: str, key: str
) -> None:
    error = {"message": "Sorry", "type": "some_error", "code": 7, key: code}
    refused = Raw(status, "application/json", json.dumps({"error": error}).encode())
    with (
        LoopbackServer(Sequence(refused)) as server,
        pytest.raises(ModelError, match=told),
    ):
        Partner(server, wire).ask()
    assert len(server.requests) == 1


def test_advice_is_read_behind_many_words_of_a_server(provider: str) -> None:
    words = "Your credit balance is too low. " + "Read the plans. " * 15
    with (
        LoopbackServer(Sequence(Refused(400, words))) as server,
        pytest.raises(
            ModelError, match=r"Your credit .* …\); add credit .* another model\.$"
        ) as told,
    ):
        Partner(server, provider).ask()
    assert len(str(told.value)) < 400


def test_a_connection_that_breaks_without_words_is_told_in_words(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Misbehaviour("half"))) as server,
        pytest.raises(ModelError, match="broke off every reply") as told,
    ):
        Partner(server, provider).ask()
    assert re.search(r"\((?!\w+Error\))[^()]+ [^()]+\)", str(told.value))


def test_an_unreachable_server_is_said_in_a_sentence(provider: str) -> None:
    server = LoopbackServer(Sequence(Said(VERSE)))
    partner = Partner(server, provider)
    server._server.server_close()
    with pytest.raises(ModelError, match="cannot be reached"):
        partner.ask()
    assert partner.budget.spent().dollars == 0
    assert partner.budget.spent().calls == 3
    assert [" ".join(said.split()[1:5]) for said in partner.remarks] == [
        "cannot be reached yet"
    ] * 2
    assert all(said.endswith("; trying again.") for said in partner.remarks)


@pytest.mark.parametrize(
    "fault",
    [
        Misbehaviour("busy"),
        Misbehaviour("overloaded"),
        Misbehaviour("unavailable"),
        Misbehaviour("half"),
        Misbehaviour("overloaded_later"),
        Misbehaviour("reset"),
        Misbehaviour("reset_before"),
        Misbehaviour("stall", stall_s=0.6),
        Misbehaviour("garbled_stream"),
        Refused(408, "too slow"),
        Refused(409, "conflict"),
    ],
    ids=lambda fault: getattr(fault, "name", "") or str(getattr(fault, "status", "")),
)
def test_passing_faults_are_retried(provider: str, fault: Response) -> None:
    with LoopbackServer(Sequence(fault, fault, Said(VERSE))) as server:
        partner = Partner(server, provider)
        assert partner.ask().record.times == 3
    assert len(server.requests) == 3
    assert partner.budget.spent().tokens >= server.billed_tokens
    assert partner.budget.spent().calls == 3


@pytest.mark.parametrize("endless", [Misbehaviour("huge"), Said("x" * 1_000_000)])
def test_a_reply_without_an_end_is_asked_for_once_more(provider: str, endless: Response) -> None:
    with LoopbackServer(Sequence(endless, Said(VERSE))) as server:
        partner = Partner(server, provider)
        assert partner.ask().record.times == 3
    assert partner.budget.spent().tokens >= server.billed_tokens
    with LoopbackServer(Sequence(endless)) as server:
        with pytest.raises(ReplyError, match="sent more than a reply may hold"):
            Partner(server, provider).ask()
        assert len(server.requests) == 2


def test_a_stall_is_noticed_before_the_request_times_out(provider: str) -> None:
    patient = QUICK.model_copy(update={"limits": QUICK.limits.model_copy(update={"stall_s": 0.1})})
    stall = Misbehaviour("stall", stall_s=5)
    with LoopbackServer(Sequence(stall, Said(VERSE))) as server:
        answer = Partner(server, provider, settings=patient).ask()
    assert answer.record.times == 3


def test_a_reply_that_drips_for_ever_ends_at_the_limit_of_time(provider: str) -> None:
    limits = QUICK.limits.model_copy(update={"total_s": 2.0, "stall_s": 60.0})
    hasty = QUICK.model_copy(update={"limits": limits})
    with LoopbackServer(Sequence(Misbehaviour("drip"), Said(VERSE))) as server:
        partner = Partner(server, provider, settings=hasty)
        assert partner.ask().record.times == 3
    dripped, whole = partner.ledger.calls()
    assert dripped.cost == dripped.call.worst.as_assumed
    assert whole.has_reply


@pytest.mark.parametrize("told", ["7", "-7", "nan", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_retry_after_is_honoured_where_it_is_a_time(provider: str, told: str) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    busy = Misbehaviour("busy", retry_after=told)
    calm = QUICK.model_copy(
        update={"patience": QUICK.patience.model_copy(update={"longest_wait_s": 30.0})}
    )
    with LoopbackServer(Sequence(busy, Said(VERSE))) as server:
        model = Partner(server, provider, settings=calm).open()
        model._exchanges[0].sleep = note  # type: ignore[attr-defined]
        with AsyncBridge(model) as board:
            board.ask(prompt("One."), Verse, PURPOSE)
    assert waits == [7.0] if told == "7" else 0 <= waits[0] <= 1.0


def test_a_server_that_stays_busy_ends_in_a_sentence(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Misbehaviour("overloaded"))) as server,
        pytest.raises(ModelError, match="stayed busy through every retry"),
    ):
        Partner(server, provider).ask()
    assert len(server.requests) == QUICK.patience.attempts


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8080/v1", "ftp://127.0.0.1/v1", "http://", "http:///v1"),
        *("http://127.0.0.1:99999/v1", "http://127.0.0.1:port/v1", "http://[::1/v1"),
        *("http://127.0.0.1/v1?key=1", "http://127.0.0.1/v1#top", "http://127.0.0.1/ v1"),
    ],
)
def test_what_no_path_can_be_put_behind_is_no_base_url(url: str) -> None:
    with pytest.raises(UsageError, match=r"^expected a base URL .*, found "):
        ModelSpec.parse("openai:x", url)


def test_the_next_model_of_the_list_steps_in(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Refused(404, "unknown model"))) as broken,
        LoopbackServer(Sequence(Said(VERSE))) as sound,
    ):
        spare = ModelSpec.parse("openai:local", sound.base_url("openai"))
        answer = Partner(broken, provider, fallbacks=[spare]).ask()
    assert answer.model == "openai:local"


LASTING = {
    "insufficient_quota": 429,
    "Your credit balance is too low": 400,
    "invalid x-api-key": 401,
    "unknown model": 404,
    "temperature is unknown": 400,
}


@pytest.mark.parametrize("words", LASTING)
def test_a_model_that_no_waiting_heals_is_left_alone_for_a_while(provider: str, words: str) -> None:
    now_s = 0.0
    with (
        LoopbackServer(Sequence(Refused(LASTING[words], words))) as broken,
        LoopbackServer(Sequence(Said(VERSE))) as sound,
    ):
        spare = ModelSpec.parse("openai:local", sound.base_url("openai"))
        partner = Partner(broken, provider, fallbacks=[spare])
        model = partner.open()
        model._clock = lambda: now_s
        with AsyncBridge(model) as board:
            for text in ("One.", "Two.", "Three."):
                answer = board.ask(prompt(text), Verse, PURPOSE)
                assert answer.model == "openai:local"
                assert words in answer.stands_in
            assert len(broken.requests) == 1
            now_s = 601.0
            board.ask(prompt("Four."), Verse, PURPOSE)
    assert len(broken.requests) == 2
    assert partner.budget.spent().calls == len(sound.requests) == 4


def test_a_model_that_is_away_is_left_alone_for_longer_each_time(provider: str) -> None:
    now_s = 0.0
    attempts = QUICK.patience.attempts
    with (
        LoopbackServer(Sequence(Misbehaviour("reset"))) as broken,
        LoopbackServer(Sequence(Said(VERSE))) as sound,
    ):
        spare = ModelSpec.parse("openai:local", sound.base_url("openai"))
        model = Partner(broken, provider, fallbacks=[spare]).open()
        model._clock = lambda: now_s
        with AsyncBridge(model) as board:
            for now_s, asked in ((0.0, 1), (29.0, 1), (31.0, 2), (90.0, 2), (92.0, 3)):
                answer = board.turn(prompt(f"At {now_s}."), PURPOSE)
                assert "broke off every reply" in answer.stands_in
                assert len(broken.requests) == asked * attempts


def test_a_server_that_asks_for_a_long_wait_is_left_alone_for_so_long(provider: str) -> None:
    now_s = 0.0
    busy = Misbehaviour("busy", retry_after="99999")
    with LoopbackServer(Sequence(busy, Said(VERSE))) as server:
        model = Partner(server, provider).open()
        model._clock = lambda: now_s
        with AsyncBridge(model) as board:
            with pytest.raises(ModelError, match="asks to wait 28 h "):
                board.ask(prompt("One."), Verse, PURPOSE)
            now_s = 99_000.0
            with pytest.raises(ModelError, match="asks to wait 17 min "):
                board.ask(prompt("One."), Verse, PURPOSE)
            assert len(server.requests) == 1
            now_s = 100_000.0
            assert board.ask(prompt("One."), Verse, PURPOSE).record.times == 3


def test_a_model_without_quota_is_asked_where_no_other_can_be(provider: str) -> None:
    refused = Refused(429, "insufficient_quota")
    with (
        LoopbackServer(Sequence(refused, Said(VERSE))) as server,
        AsyncBridge(Partner(server, provider).open()) as board,
    ):
        with pytest.raises(ModelError, match="has no quota left"):
            board.ask(prompt("One."), Verse, PURPOSE)
        assert board.ask(prompt("Two."), Verse, PURPOSE).record.times == 3


def test_a_cheaper_model_steps_in_where_a_dear_one_could_exceed_a_cap(provider: str) -> None:
    with (
        LoopbackServer(Sequence(Said(VERSE))) as dear,
        LoopbackServer(Sequence(Said(VERSE))) as own,
    ):
        spare = ModelSpec.parse("openai:local", own.base_url("openai"))
        partner = Partner(dear, provider, caps=Caps(dollars=1e-6), fallbacks=[spare])
        assert partner.ask().model == "openai:local"
        with pytest.raises(BudgetError, match=r"the cap of \$0.00\d* is reached"):
            Partner(dear, provider, caps=Caps(dollars=1e-6)).ask()
    assert not dear.requests


def test_schemas_then_forced_tools_are_given_up_where_a_server_has_none(provider: str) -> None:
    def script(request: Heard) -> Response:
        if request.has_schema:
            return Refused(400, "response_format / output_config.format is not supported")
        if request.tool:
            return Refused(400, "tool_choice forces tool use, which this model does not support")
        return Said(VERSE, style="text")

    with LoopbackServer(script) as server:
        partner = Partner(server, provider)
        with AsyncBridge(partner.open()) as board:
            for words in ("One.", "Two."):
                assert board.ask(prompt(words), Verse, PURPOSE).record.times == 3
    assert len(server.requests) == 4
    assert "JSON schema" in server.requests[-1].text


def test_a_cap_is_never_exceeded_and_the_end_is_orderly(provider: str) -> None:
    with LoopbackServer(Sequence(Said(VERSE))) as server:
        partner = Partner(server, provider, caps=Caps(calls=3))
        with AsyncBridge(partner.open()) as board:
            answers = [board.submit(prompt(str(i)), Verse, PURPOSE) for i in range(8)]
            ends = [type(answer.exception()) for answer in answers]
    assert ends.count(BudgetError) == 5
    assert len(server.requests) == 3


def test_a_cap_in_dollars_needs_a_price(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.agents.session.spec.price_of", lambda spec, table: None)
    with LoopbackServer(Sequence(Said(VERSE))) as server:
        with pytest.raises(ModelError, match=r"no price is known .* prices\.toml"):
            Partner(server, provider, caps=Caps(dollars=1.0)).open()
        assert not server.requests
        assert Partner(server, provider, caps=Caps(calls=1)).ask().cost.dollars == 0


def test_the_time_that_is_left_bounds_a_request(provider: str) -> None:
    stall = Misbehaviour("stall", stall_s=3)
    slow = QUICK.model_copy(
        update={"limits": Limits(stall_s=2.5, first_event_s=2.5, output_tokens=100)}
    )
    with LoopbackServer(Sequence(stall)) as server:
        partner = Partner(server, provider, caps=Caps(seconds=0.3), settings=slow)
        with pytest.raises(BudgetError, match="is reached"):
            partner.ask()


def test_the_key_is_sent_and_appears_nowhere_else(
    provider: str, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    leak = Refused(401, f"no account for {secret}")
    with LoopbackServer(Sequence(Said(VERSE), leak)) as server:
        partner = Partner(server, provider)
        partner.ask()
        with pytest.raises(ModelError) as caught:
            partner.ask("Two.")
    assert secret in server.requests[0].authorization
    assert secret not in "".join(traceback.format_exception(caught.value))
    assert secret not in caplog.text
    assert all(secret not in recorded.model_dump_json() for recorded in partner.ledger.calls())


def test_a_key_may_lie_in_the_keyring(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY")
    kept = {("kernelwright", provider): "sk-from-the-keyring"}
    monkeypatch.setattr("keyring.get_password", lambda service, name: kept.get((service, name)))
    with LoopbackServer(Sequence(Said(VERSE))) as server:
        Partner(server, provider).ask()
    assert "sk-from-the-keyring" in server.requests[0].authorization


class Crowded:
    """An exchange that notes how many ask it at once."""

    name = "crowded"
    models = ("crowded",)

    def __init__(self) -> None:
        self.present = 0
        self.most = 0

    async def reply(
        self,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        *,
        stands_in: str = "",
    ) -> TimedReply:
        self.present += 1
        self.most = max(self.most, self.present)
        await asyncio.sleep(0.005)
        self.present -= 1
        reply = Reply(text=VERSE, stop="done", usage=Usage(), model=self.name)
        return TimedReply(reply, Cost(calls=1), 0.005, "call")

    def recorded_turns(self, purpose: Purpose) -> tuple[Turn, ...]:
        return ()

    def wasted(self, task: str) -> Spent:
        return Spent()

    async def close(self) -> None:
        """Nothing is open."""


def test_no_more_than_so_many_calls_are_in_flight() -> None:
    crowded = Crowded()
    with AsyncBridge(Conversations([crowded], concurrency=3)) as board:
        answers = [board.submit(prompt(str(n)), Verse, PURPOSE) for n in range(12)]
        assert all(answer.result(timeout=120).record.times == 3 for answer in answers)
    assert crowded.most == 3


def test_what_is_asked_once_the_bridge_is_closed_is_abandoned() -> None:
    board = AsyncBridge(Conversations([Crowded()]))
    board.close()
    # A coroutine that nobody awaits is a warning, and so an error of the tests.
    with pytest.raises(CancelledError, match=r"^$"):
        board.turn(prompt("Late."), PURPOSE)
    with pytest.raises(CancelledError, match=r"^$"):
        board.ask(prompt("Late."), Verse, PURPOSE)
    gc.collect()


class Reluctant(Crowded):
    """A model that refuses, or answers, and counts how often it is asked."""

    def __init__(self, name: str, *, refuses: bool) -> None:
        super().__init__()
        self.name, self.models = name, (name,)
        self.asked, self._refuses = 0, refuses

    async def reply(
        self,
        prompt: Prompt,
        shape: type[BaseModel] | None,
        purpose: Purpose,
        *,
        stands_in: str = "",
    ) -> TimedReply:
        self.asked += 1
        timed = await super().reply(prompt, shape, purpose)
        if not self._refuses:
            return timed
        refused = timed.reply.model_copy(update={"stop": "refused", "text": "No."})
        return replace(timed, reply=refused)


def test_a_conversation_goes_on_with_the_model_that_answered() -> None:
    first, second = Reluctant("a", refuses=True), Reluctant("b", refuses=False)
    with AsyncBridge(Conversations([first, second])) as board:
        answers = [board.turn(prompt(str(n)), PURPOSE) for n in range(3)]
    assert [answer.reply.model for answer in answers] == ["b", "b", "b"]
    assert (first.asked, second.asked) == (1, 3)
