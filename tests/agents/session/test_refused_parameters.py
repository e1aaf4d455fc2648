"""What a server refuses by name is left out in whole, whatever was asked for in it."""

import pytest

from kernelwright.agents.roles.model_check import doctor_model
from tests.agents.loopback.partner import NAMES
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Heard, Said


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'output_config' is not supported with this model.",
        "output_config: Extra inputs are not permitted",
    ],
)
def test_an_effort_goes_with_the_parameter_that_holds_it(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")

    def script(request: Heard) -> Response:
        return Refused(400, said) if '"output_config"' in request.body else Said('{"total": 42}')

    with LoopbackServer(script) as server:
        report = doctor_model("anthropic:claude-sonnet-5@high", server.base_url("anthropic"))
    assert report.is_right
    assert len(server.requests) == 2


def test_a_schema_is_given_up_alone_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    refusal = Refused(400, "output_config.format: Extra inputs are not permitted")

    def script(request: Heard) -> Response:
        return refusal if request.has_schema else Said('{"total": 42}')

    with LoopbackServer(script) as server:
        doctor_model("anthropic:claude-sonnet-5@high", server.base_url("anthropic"))
    assert [request.effort for request in server.requests] == ["high", "high"]


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
@pytest.mark.parametrize("refuses", [True, False])
def test_whether_a_server_streams_is_said(
    wire: str, refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")

    def script(request: Heard) -> Response:
        if refuses and '"stream": true' in request.body.replace('":true', '": true'):
            return Refused(400, "stream is not supported")
        return Said('{"total": 42}')

    with LoopbackServer(script) as server:
        report = doctor_model(f"{wire}:{NAMES[wire]}", server.base_url(wire))
    assert ("): no streams, " if refuses else "): streaming, ") in report.sentence
