"""A key stays out of what servers are quoted with, whole or cut, whoever's it is."""

import pytest

from kernelwright.agents.providers.client import Endpoint
from kernelwright.agents.providers.key import Key, find_key
from kernelwright.agents.providers.output_limit import Asked
from kernelwright.agents.providers.sdk_client import SdkClient
from kernelwright.errors import ModelError

OWN = "sk-own-0123456789abcdefghij"
OTHER = "sk-other-9876543210zyxwvutsr"


class QuotingClient(SdkClient):
    def quote(self, said: str) -> str:
        return self._refused(401, said, Asked(0, 0, ()), {}, code="").message


@pytest.mark.parametrize("secret", [OWN, OTHER])
@pytest.mark.parametrize("padding", [0, 270, 280])
def test_no_quote_holds_a_key_or_its_beginning(
    monkeypatch: pytest.MonkeyPatch, secret: str, padding: int
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", OTHER)
    client = QuotingClient(Endpoint("openai", "small", Key(OWN)), {})
    quote = client.quote("." * padding + f"Incorrect key: {secret}; see the docs")
    assert secret[:17] not in quote
    assert "Incorrect key: [key]" in quote


def test_a_key_that_is_cut_off_is_hidden_and_a_public_prefix_is_not() -> None:
    key = Key(OWN)
    assert key.redact(f"wrong: {OWN[:20]}") == "wrong: [key]"
    assert key.redact("keys begin with sk-own-") == "keys begin with sk-own-"
    assert Key("").redact("nothing") == "nothing"


def test_a_word_that_stands_for_a_key_hides_no_part_of_other_words() -> None:
    assert Key("k").redact("max_tokens: no key k, k-9") == "max_tokens: no key [key], [key]-9"


@pytest.mark.parametrize(
    ("secret", "found"),
    [
        ("sk-one\nsk-two", "a line break"),
        ("sk-\u200bone", r"the character '\\u200b'"),
        ("a b", "the character ' '"),
    ],
)
def test_what_is_no_key_is_told_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, secret: str, found: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    with pytest.raises(ModelError, match=f"found {found} in it; set ANTHROPIC_API_KEY"):
        find_key("anthropic")
