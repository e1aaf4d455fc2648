"""A request that cannot be written is no server's fault, is not sent again, and costs nothing."""

import pytest

from kernelwright.agents.budget import NOTHING
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.session import AsyncBridge
from tests.agents.loopback.partner import PROMPT, PURPOSE, Partner, Verse
from tests.agents.loopback.server import LoopbackServer
from tests.agents.loopback.wire import Said

UNWRITABLE = PROMPT.model_copy(update={"context": "half a character: \ud83d"})


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
def test_a_request_that_cannot_be_written_costs_nothing_and_blames_no_server(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A prompt's size is counted before it is written: here the fault shall come after that.
    monkeypatch.setattr("kernelwright.agents.message.Prompt.bytes_sent", property(lambda _: 100))
    monkeypatch.setattr("kernelwright.agents.session.live.request_hash", lambda *_: "0" * 64)
    with LoopbackServer(lambda _: Said("{}")) as server:
        partner = Partner(server, wire)
        with (
            AsyncBridge(partner.open()) as bridge,
            pytest.raises(ReplyError, match="was not asked") as raised,
        ):
            bridge.ask(UNWRITABLE, Verse, PURPOSE)
    assert not server.requests
    assert partner.budget.spent() == NOTHING
    assert len(list(partner.ledger.calls())) == 1
    assert "server" not in str(raised.value)
