"""One cheap call says what a model can do, or why it cannot be used."""

import pytest

from kernelwright.agents.providers.client import ReplyMode
from kernelwright.agents.providers.registry import PROVIDERS
from kernelwright.agents.roles.model_check import doctor_model
from kernelwright.errors import InputError, ModelError
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Heard, Said


@pytest.mark.parametrize("mode", list(ReplyMode))
def test_what_a_model_can_do(provider: str, mode: ReplyMode) -> None:
    def script(request: Heard) -> Response:
        if request.tool and mode is ReplyMode.TEXT:
            return Refused(400, "tools are not supported by this model")
        if request.has_schema and mode is not ReplyMode.SCHEMA:
            return Refused(400, "output_config.format / response_format is not supported")
        return Said('{"total": 42}')

    with LoopbackServer(script) as server:
        report = doctor_model(f"{provider}:claude-haiku-4-5", server.base_url(provider))
    assert report.mode is mode
    assert report.is_right
    assert report.input_tokens + report.output_tokens == server.billed_tokens
    assert report.sentence.startswith(f"{provider}:claude-haiku-4-5 answers in")


def test_a_model_that_cannot_add_is_named(provider: str) -> None:
    with LoopbackServer(lambda _: Said('{"total": 41}')) as server:
        report = doctor_model(f"{provider}:tiny", server.base_url(provider))
    assert "it cannot add" in report.sentence


def test_a_bad_key_is_said(provider: str) -> None:
    with (
        LoopbackServer(lambda _: Refused(401, "invalid key")) as server,
        pytest.raises(ModelError, match="refuses the key"),
    ):
        doctor_model(f"{provider}:any", server.base_url(provider))


def test_no_key_is_said_before_anything_is_sent(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY")
    monkeypatch.setattr("keyring.get_password", lambda service, name: None)
    with pytest.raises(ModelError, match=f"{provider.upper()}_API_KEY"):
        doctor_model(f"{provider}:any")


def test_a_server_of_ones_own_needs_no_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY")
    monkeypatch.setattr("keyring.get_password", lambda service, name: None)
    with LoopbackServer(lambda _: Said('{"total": 42}')) as server:
        report = doctor_model(f"{provider}:mine", server.base_url(provider))
    assert report.is_right
    assert report.dollars == 0


@pytest.mark.parametrize("name", ["none", "replay:ab12", "claude", "openai:", "gemini:pro"])
def test_only_live_models_are_examined(name: str) -> None:
    with pytest.raises(InputError, match="expected a"):
        doctor_model(name)


def test_every_provider_is_named_where_none_is_known() -> None:
    with pytest.raises(InputError) as refused:
        doctor_model("foo:bar")
    assert all(f"{name}:NAME" in str(refused.value) for name in PROVIDERS)
