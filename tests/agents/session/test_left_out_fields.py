"""Servers that speak a provider's format leave fields out that its own server always sends."""

import json
from collections.abc import Callable

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.session import Answer, Patience
from tests.agents.loopback.events import events
from tests.agents.loopback.partner import QUICK, Partner, Verse
from tests.agents.loopback.server import LoopbackServer, Raw
from tests.agents.loopback.wire import Heard, Said

TWICE = QUICK.model_copy(update={"patience": Patience(attempts=2, first_wait_s=0.001)})
VERSE = Said('{"line": "waves", "times": 3}', thinking="The sea, then.")


def without(*path: str, of: str = "") -> Callable[[Heard], Raw]:
    """A server that leaves a field out of every event that has it, or of one kind of events."""

    def reply(request: Heard) -> Raw:
        lines = b"".join(events(request, VERSE)).decode().split("\n")
        body = "\n".join(_cut(line, path) if of in line else line for line in lines)
        return Raw(200, "text/event-stream", body.encode())

    return reply


def _cut(line: str, path: tuple[str, ...]) -> str:
    if not line.startswith("data: {"):
        return line
    data = json.loads(line.removeprefix("data: "))
    holders = [data]
    for name in path[:-1]:
        found = (h.get(name) for h in holders)
        holders = [
            part
            for value in found
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, dict)
        ]
    for holder in holders:
        holder.pop(path[-1], None)
    return f"data: {json.dumps(data)}"


def asked(wire: str, *path: str) -> tuple[Answer[Verse], Partner, int]:
    with LoopbackServer(without(*path)) as server:
        partner = Partner(server, wire, caps=Caps(dollars=5.0), settings=TWICE)
        return partner.ask(), partner, len(server.requests)


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ("anthropic", ("message", "usage")),
        ("anthropic", ("usage",)),
        ("openai", ("usage",)),
        ("openai-responses", ("response", "usage")),
    ],
)
def test_a_reply_without_usage_is_read_once_and_booked_by_bytes(
    wire: str, path: tuple[str, ...]
) -> None:
    answer, partner, requests = asked(wire, *path)
    assert answer.record.times == 3
    assert requests == 1
    worst = partner.ledger.calls()[0].call.worst
    assert 0 < partner.budget.spent().dollars < worst.dollars
    outcome = partner.ledger.calls()[0].outcome
    assert outcome is not None
    assert outcome.usage.is_estimate


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ("anthropic", ("delta", "stop_reason")),
        ("openai-responses", ("response", "output", "summary")),
        ("openai-responses", ("response", "output")),
    ],
)
def test_a_reply_without_what_adds_nothing_is_read(wire: str, path: tuple[str, ...]) -> None:
    answer, _, requests = asked(wire, *path)
    assert answer.record.line == "waves"
    assert requests == 1


@pytest.mark.parametrize("field", ["index", "delta"])
def test_a_piece_without_what_it_needs_is_told(field: str) -> None:
    with LoopbackServer(without(field, of='"content_block_delta"')) as server:
        partner = Partner(server, "anthropic", settings=TWICE)
        with pytest.raises(ReplyError, match="an event of another shape"):
            partner.ask()
