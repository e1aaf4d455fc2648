"""Calls as any server told them are taken back by every other, however strict it is."""

import json
import re
from collections.abc import Iterator

import pytest

from kernelwright.agents.providers.tool_call import legal_arguments, object_of
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge, ModelSpec
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import NAMES, Partner
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Calls, Heard, Said

LOOK = json.dumps({"what": "graph", "from_line": 1})
CARELESS = (
    Said(calls=(Calls("show", LOOK, id="call_0"), Calls("show", LOOK, id="call_0"))),
    Said(calls=(Calls("show", LOOK, id="call_0"), Calls("multi_tool.use: all", "{}", id="a b"))),
    Said(calls=(Calls("show", '{"what": "gr', id="call_0"), Calls("x" * 99, "[3]", id=""))),
)
LEGAL_ID = re.compile(r"[A-Za-z0-9]{9}")
LEGAL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def parts(value: object) -> Iterator[dict[str, object]]:
    """Every JSON object in a body."""
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list) else ():
        yield from parts(inner)


def history(request: Heard) -> Iterator[dict[str, object]]:
    body = json.loads(request.body)
    return parts(body.get("input") or body["messages"])


def faults(request: Heard) -> list[str]:
    """What the strictest of providers would refuse in the history of a conversation."""
    found = list(history(request))
    calls = [p for p in found if p.get("type") in ("tool_use", "function", "function_call")]
    answers = [p.get("tool_use_id") or p.get("tool_call_id") for p in found]
    answers += [p.get("call_id") for p in found if p.get("type") == "function_call_output"]
    ids = [str(call.get("call_id") or call.get("id")) for call in calls]
    told = [] if [a for a in answers if a] == ids else [f"answers {answers}"]
    told += [f"ids {ids}"] if len(set(ids)) < len(ids) else []
    told += [f"id {id_}" for id_ in ids if not LEGAL_ID.fullmatch(id_)]
    for call in calls:
        function = call.get("function", call)
        assert isinstance(function, dict)
        arguments = function.get("arguments", function.get("input"))
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        told += [f"arguments {arguments}"] if not isinstance(arguments, dict) else []
        name = str(function["name"])
        told += [] if LEGAL_NAME.fullmatch(name) else [f"name {name}"]
    return told


def strict(request: Heard) -> Response:
    problems = faults(request)
    return Refused(400, f"tool calls: {'; '.join(problems)}") if problems else DONE


@pytest.mark.parametrize("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_a_strict_server_takes_over_what_a_careless_one_began(
    judge: Shared, first: str, second: str
) -> None:
    said = iter(CARELESS)
    with (
        LoopbackServer(lambda _: next(said, Said("No.", stop="refused"))) as careless,
        LoopbackServer(strict) as other,
    ):
        spare = ModelSpec.parse(f"{second}:other", other.base_url(second))
        with AsyncBridge(Partner(careless, first, fallbacks=[spare]).open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    (request,) = other.requests
    assert request.tools
    assert len([p for p in history(request) if "name" in p]) == 6
    assert [faults(r) for r in careless.requests] == [[]] * 4


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("{}", "{}"),
        ('{"a": "line\nbreak"}', '{"a": "line\\nbreak"}'),
        ("[1]", '{"unreadable": "[1]"}'),
        ('{"a": ', '{"unreadable": "{\\"a\\": "}'),
        ("[" * 100_000, json.dumps({"unreadable": "[" * 100_000})),
    ],
)
def test_arguments_are_sent_back_as_an_object(written: str, sent: str) -> None:
    assert legal_arguments(written) == sent
    assert object_of(written) == json.loads(sent)
