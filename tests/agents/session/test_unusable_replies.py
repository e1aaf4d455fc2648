"""Whatever a server sends instead of a reply becomes one clear sentence, in every format."""

import json
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.providers.fault import OutageError, ReplyError
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge, Patience
from kernelwright.agents.session.transcript import Ending
from kernelwright.errors import ModelError
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import QUICK, Partner
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Raw, Refused, Response
from tests.agents.loopback.wire import Calls, Said

LOOK = Said(calls=(Calls.of("show", what="graph", from_line=1),))
TWICE = QUICK.model_copy(update={"patience": Patience(attempts=2, first_wait_s=0.001)})
PAGE = b"<!DOCTYPE html><html><script>alert(1)</script>Please log in</html>"
QUOTA = "You exceeded your current quota, please check your plan and billing details."
JARGON = ("codec", "Traceback", "NoneType", "attribute", "<script", "Field required", "Extra")


@pytest.fixture(params=["anthropic", "openai", "openai-responses"])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def failure(wire: str, response: Raw | Refused | Said) -> tuple[ModelError, int]:
    with LoopbackServer(lambda _: response) as server:
        partner = Partner(server, wire, settings=TWICE)
        with pytest.raises(ModelError, match=wire) as raised:
            partner.ask()
    told = str(raised.value)
    assert "\n" not in told
    assert not any(word in told for word in JARGON)
    return raised.value, len(server.requests)


UNUSABLE = {
    "a login page": (
        Raw(200, "text/html; charset=utf-8", PAGE),
        "is not served there (http://127.0.0.1",
        "check --base-url",
    ),
    "a JSON reply": (Raw(200, "application/json", b'{"ok": 1}'), "sent application/json", "expect"),
    "nothing": (Raw(200, "text/event-stream", b""), "the reply is empty", "expected a stream"),
    "a gateway's page": (Raw(502, "text/html", PAGE), "status 502 with a web page", "try again"),
    "bytes that are no text": (
        Raw(200, "text/event-stream", b'event: message_start\ndata: {"type": "\xff\xfe"}\n\n'),
        "bytes that are no UTF-8",
        "expected a stream",
    ),
    "an event that is no JSON": (
        Raw(200, "text/event-stream", b"event: message_start\ndata: {oops\n\n"),
        "an event that is no JSON",
        "expected a stream",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_reply_is_told_with_what_to_do(wire: str, name: str) -> None:
    response, found, advice = UNUSABLE[name]
    error, requests = failure(wire, response)
    assert found in str(error)
    assert advice in str(error)
    is_paid_for = response.status == 200 and "html" not in response.content_type
    assert isinstance(error, ReplyError if is_paid_for else OutageError)
    assert requests == 2


NO_JSON, _, _ = UNUSABLE["an event that is no JSON"]
PAID_FOR: dict[str, Response] = {"unreadable": NO_JSON, "empty": Said("", style="text")}


@pytest.mark.parametrize("name", PAID_FOR)
def test_what_is_paid_for_and_of_no_use_is_asked_for_seldom_and_ends_a_conversation(
    wire: str, judge: Shared, name: str
) -> None:
    script: Iterator[Response] = chain([LOOK], repeat(PAID_FOR[name]))
    endings: list[Ending] = []
    with LoopbackServer(lambda _: next(script)) as server:
        with AsyncBridge(Partner(server, wire).open()) as bridge:
            coder = ModelCoder(bridge, Bench(judge), on_end=endings.append)
            assert not coder.write(TASK, DEVICE, (), count=1)
        assert len(server.requests) == 1 + 3
    (ending,) = endings
    assert ending.is_final
    assert "replies" in ending.reason or "no reply that can be read" in ending.reason


def test_other_faults_between_do_not_count_as_unreadable(wire: str) -> None:
    verse = Said('{"line": "waves", "times": 3}')
    busy = Refused(503, "busy")
    script: Iterator[Response] = iter([busy, busy, NO_JSON, busy, NO_JSON, verse])
    with LoopbackServer(lambda _: next(script)) as server:
        assert Partner(server, wire).ask().record.times == 3


def test_a_password_in_the_base_url_is_not_told(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LoopbackServer,
        "root",
        property(lambda self: f"http://me:5ecret@127.0.0.1:{self._server.server_address[1]}"),
    )
    error, _ = failure(wire, Raw(200, "text/html", PAGE))
    assert "http://127.0.0.1" in str(error)
    assert "5ecret" not in str(error)


MISSHAPEN: dict[str, tuple[str, dict[str, object]]] = {
    "anthropic": ("message_start", {"message": None}),
    "openai": ("", {"choices": [{"index": 0, "delta": None}]}),
    "openai-responses": ("response.completed", {"response": {"output": [3], "status": None}}),
}


def test_an_event_of_another_shape_is_told(wire: str) -> None:
    kind, fields = MISSHAPEN[wire]
    data = json.dumps({"type": kind, **fields})
    body = f"event: {kind}\ndata: {data}\n\n" if kind else f"data: {data}\n\n"
    error, _ = failure(wire, Raw(200, "text/event-stream", body.encode()))
    assert "an event of another shape" in str(error)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, QUOTA),
        (402, "Payment Required"),
        (400, "Your credit balance is too low to access the API."),
    ],
)
def test_a_spent_quota_is_told_at_once_and_may_be_over_later(
    wire: str, status: int, message: str
) -> None:
    error, requests = failure(wire, Refused(status, message))
    assert "has no quota left" in str(error)
    assert "add credit" in str(error)
    assert isinstance(error, OutageError)
    assert requests == 1


def test_a_record_of_another_shape_is_told_in_words(wire: str) -> None:
    error, _ = failure(wire, Said('{"lines": "Waves.", "times": "often"}'))
    assert "line is missing" in str(error)
    assert "lines is no key of it" in str(error)
    assert "times: expected a whole number" in str(error)


@pytest.mark.parametrize("tokens", [7, None])
def test_an_empty_reply_is_asked_for_again_and_costs_what_it_was_billed(
    wire: str, tokens: int | None
) -> None:
    empty = Said("", style="text", output_tokens=tokens)
    script = iter([empty, empty, Said('{"line": "waves", "times": 3}')])
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=5.0))
        assert partner.ask().record.times == 3
        bills = server.bills
    assert len(server.requests) == 3
    spent = partner.budget.spent()
    assert spent.tokens == sum(b.input_tokens + b.output_tokens for b in bills)


def test_a_conversation_goes_on_after_an_empty_reply(wire: str, judge: Shared) -> None:
    script = chain([Said("")], repeat(DONE))
    with LoopbackServer(lambda _: next(script)) as server:
        with AsyncBridge(Partner(server, wire).open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        assert len(server.requests) == 2
        assert server.requests[0].body == server.requests[1].body


def test_nothing_but_empty_replies_is_a_sentence(wire: str) -> None:
    error, requests = failure(wire, Said("", style="text"))
    assert "nothing but empty replies" in str(error)
    assert isinstance(error, ReplyError)
    assert requests == 2
