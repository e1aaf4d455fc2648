"""Halves of surrogate pairs that a model or a server spells stop neither requests nor records."""

import json
from collections.abc import Iterator

import pytest

from kernelwright.agents.message import whole_escapes
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge
from kernelwright.errors import ModelError
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Refused
from tests.agents.loopback.wire import Calls, Said

WIRES = ["anthropic", "openai", "openai-responses"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'{"a": "\ud83d"}', "\ufffd"),
        (r'{"a": "\udc00 b"}', "\ufffd b"),
        (r'{"a": "\ud83d\ud83d\ude00"}', "\ufffd\U0001f600"),
        (r'{"a": "\uD83D\uDE00"}', "\U0001f600"),
        (r'{"a": "\\ud83d"}', r"\ud83d"),
        ('{"a": "\ud83d"}', "\ufffd"),
    ],
)
def test_halves_of_pairs_are_replaced_and_nothing_else(written: str, read: str) -> None:
    assert json.loads(whole_escapes(written)) == {"a": read}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "said",
    [
        Said(calls=(Calls("show", r'{"what": "mlx \ud83d", "from_line": 1}'),)),
        Said("cut \ud83d here", calls=(Calls.of("show", what="mlx", from_line=1),)),
        Said(thinking="cut \ud83d", calls=(Calls("show", r'{"what": "\udc00'),)),
    ],
    ids=["arguments", "text", "thoughts and broken arguments"],
)
def test_a_conversation_goes_on_after_half_a_character(
    judge: Shared, wire: str, said: Said
) -> None:
    script: Iterator[Said] = iter([said, DONE])
    with (
        LoopbackServer(lambda _: next(script)) as server,
        AsyncBridge(Partner(server, wire).open()) as bridge,
    ):
        assert not ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    assert len(server.requests) == 2
    json.dumps(json.loads(server.requests[1].body), ensure_ascii=False).encode()


@pytest.mark.parametrize("wire", WIRES)
def test_what_a_server_says_is_told_without_half_characters(wire: str) -> None:
    refused = Refused(403, "not \ud83d allowed")
    with (
        LoopbackServer(lambda _: refused) as server,
        pytest.raises(ModelError, match="not \ufffd allowed") as raised,
    ):
        Partner(server, wire).ask()
    assert not isinstance(raised.value, ReplyError)
    str(raised.value).encode()
