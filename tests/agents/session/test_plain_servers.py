"""Servers that cannot stream, or do not although they are asked, hold conversations too."""

import json
from collections.abc import Callable

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge, ReplyError
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import NAMES, Partner
from tests.agents.loopback.scene import BODY, DEVICE, SUBMIT_FIRST, TASK, checked, draft
from tests.agents.loopback.server import LoopbackServer, Raw, Refused, Response
from tests.agents.loopback.whole import at_once
from tests.agents.loopback.wire import Heard, Said

Refusal = Refused | None
SAYINGS = (
    "stream is not supported",
    "This model does not support streaming.",
    "Cannot use tools with stream",
    "stream: Input should be False",
)


def script(refusal: Refusal, *said: Said) -> Callable[[Heard], Response]:
    """A server that sends whole replies, and may refuse requests for a stream."""
    queue = list(said)

    def respond(request: Heard) -> Response:
        if refusal is not None and asks_for_stream(request):
            return refusal
        body = at_once(request, queue.pop(0))
        return Raw(200, "application/json; charset=utf-8", json.dumps(body).encode())

    return respond


def asks_for_stream(request: Heard) -> bool:
    return json.loads(request.body).get("stream") is True


ENGINEER = (
    Said("First this.", calls=(checked(draft(BODY)),), thinking="One element a thread."),
    Said(calls=(SUBMIT_FIRST,)),
)
VERSE = Said('{"line": "waves", "times": 3}')


@pytest.mark.parametrize("refusal", [None, Refused(501, SAYINGS[1])])
@pytest.mark.parametrize("wire", NAMES)
def test_a_conversation_is_held_without_streams(judge: Shared, wire: str, refusal: Refusal) -> None:
    with LoopbackServer(script(refusal, *ENGINEER)) as server:
        talker = Partner(server, wire, caps=Caps(dollars=5.0))
        with AsyncBridge(talker.open()) as bridge:
            (proposal,) = ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    assert proposal.idea == "One element a thread."
    assert [asks_for_stream(r) for r in server.requests] == [
        True,
        *[False] * 1,
        *[False] * bool(refusal),
    ]
    first = talker.ledger.calls()[-2].reply
    assert (first.text, first.reasoning) == ("First this.", "One element a thread.")
    assert not first.usage.is_estimate
    assert server.requests[-1].tools


@pytest.mark.parametrize("said", SAYINGS)
@pytest.mark.parametrize("wire", NAMES)
def test_a_plain_request_follows_a_refused_stream(wire: str, said: str) -> None:
    with LoopbackServer(script(Refused(400, said), VERSE)) as server:
        assert Partner(server, wire).ask().record.times == 3
    assert [asks_for_stream(r) for r in server.requests] == [True, False]
    assert server.requests[1].has_schema or wire == "openai-responses"


@pytest.mark.parametrize("wire", NAMES)
def test_an_upstream_that_fails_is_no_stream_that_is_refused(wire: str) -> None:
    replies: list[Response] = [Refused(503, "upstream error"), VERSE]
    with LoopbackServer(lambda _: replies.pop(0)) as server:
        assert Partner(server, wire).ask().record.times == 3
    assert all(map(asks_for_stream, server.requests))


REFUSED = {
    "System role not supported at row 1, column 5": "system",
    "Only user and assistant roles are supported! at row 3, column 9": "system",
    "Conversation roles must alternate user/assistant/user/assistant/...": "system",
    "response_format is not supported by this model": "response_format",
    "litellm.InternalServerError: stream_options are unsupported": "stream_options",
}


@pytest.mark.parametrize("said", REFUSED)
def test_a_server_that_fails_for_a_feature_is_asked_without_it_at_once(said: str) -> None:
    replies: list[Response] = [Refused(500, said), VERSE]
    with LoopbackServer(lambda _: replies.pop(0)) as server:
        assert Partner(server, "openai").ask().record.times == 3
    assert [f'"{REFUSED[said]}"' in str(request.body) for request in server.requests] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "said",
    [
        "stream error: stream ID 3; INTERNAL_ERROR; received from peer",
        "The system failed in its tool parser while it wrote the schema",
        "upstream error",
        "Upstream is not supported",
    ],
)
@pytest.mark.parametrize("wire", NAMES)
def test_a_server_that_fails_at_something_keeps_its_features(wire: str, said: str) -> None:
    replies: list[Response] = [Refused(500, said), VERSE]
    with LoopbackServer(lambda _: replies.pop(0)) as server:
        assert Partner(server, wire).ask().record.times == 3
    first, again = server.requests
    assert first.body == again.body


@pytest.mark.parametrize("wire", NAMES)
def test_a_prompt_that_a_failing_server_finds_too_long_is_not_sent_again(wire: str) -> None:
    said = "the request exceeds the available context size. try increasing the context size"
    with (
        LoopbackServer(lambda _: Refused(500, said)) as server,
        pytest.raises(ReplyError, match="does not fit"),
    ):
        Partner(server, wire).ask()
    assert len(server.requests) == 1
