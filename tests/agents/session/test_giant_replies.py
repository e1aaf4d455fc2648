"""A giant reply is read once: what is sent back of it is short, in every wire's format."""

import json

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.message import LONGEST_ECHO, Prompt, Turn
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge
from kernelwright.agents.session.transcript import transcripts
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import NAMES, Partner
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Raw, Response
from tests.agents.loopback.whole import at_once
from tests.agents.loopback.wire import Calls, Heard, Said

PROSE = "It begins. " + "waves " * 25_000 + "It ends."
LOOK = Calls.of("show", what="graph", from_line=1)
GIANTS = {
    "text": Said(PROSE, calls=(LOOK,), thinking="Hm."),
    "call": Said("Look.", calls=(Calls.of("show", what=PROSE), LOOK), thinking="Hm."),
    "no call": Said(PROSE),
}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "at once"])
@pytest.mark.parametrize("giant", GIANTS)
@pytest.mark.parametrize("wire", NAMES)
def test_what_is_sent_back_of_a_giant_reply_is_short(
    judge: Shared, wire: str, giant: str, streams: bool
) -> None:
    said = [GIANTS[giant], Said(calls=(LOOK,))]

    def script(request: Heard) -> Response:
        reply = said.pop(0) if said else DONE
        if streams:
            return reply
        return Raw(200, "application/json", json.dumps(at_once(request, reply)).encode())

    with LoopbackServer(script) as server:
        partner = Partner(server, wire, caps=Caps(dollars=5.0))
        with AsyncBridge(partner.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    first, *others = server.requests
    assert len(others) == 2
    for request in others:
        assert len(request.body) < len(first.body) + 2 * LONGEST_ECHO
        assert "It begins." in request.body
        assert "It ends." in request.body
        assert "characters of this reply are left out here" in request.body
        if GIANTS[giant].thinking and wire == "anthropic":
            assert "Hm." in request.body
    (found,) = transcripts(partner.ledger.calls())
    heard = found.turns[0].text + "".join(call.arguments for call in found.turns[0].calls)
    assert len(heard) >= len(PROSE)


def test_a_giant_reply_counts_as_it_is_sent() -> None:
    turns = (Turn(speaker="assistant", text=PROSE), Turn(speaker="user", text=PROSE[:100]))
    prompt = Prompt(system="", context="", request="", template="t@0", turns=turns)
    assert prompt.bytes_sent < LONGEST_ECHO
