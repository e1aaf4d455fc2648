"""One dated table of prices, which a user's file extends."""

from pathlib import Path

import pytest

from kernelwright.agents.message import Usage
from kernelwright.agents.providers.price import PRICES_VARIABLE, Price, load_prices
from kernelwright.errors import InputError


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.toml"
    monkeypatch.setenv(PRICES_VARIABLE, str(path))
    return path


def test_each_kind_of_token_has_its_price() -> None:
    price = Price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5)
    usage = Usage(
        input_tokens=1000, output_tokens=100, cache_read_tokens=10_000, cache_write_tokens=2000
    )
    assert price.dollars(usage) == pytest.approx(0.002 + 0.001 + 0.002 + 0.005)


def test_the_worst_case_is_never_below_the_cost() -> None:
    price = Price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5)
    usage = Usage(input_tokens=400, output_tokens=90, cache_read_tokens=300, cache_write_tokens=300)
    assert price.worst(1000, 100) >= price.dollars(usage)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("anthropic:claude-sonnet-5", True),
        ("anthropic:claude-haiku-4-5-20251001", True),
        ("openai:gpt-5-2026-04-01", True),
        ("openai:gpt-5-pro", False),
        ("openai:claude-sonnet-5", False),
    ],
)
def test_snapshots_share_a_price_and_cousins_do_not(own: Path, model: str, known: bool) -> None:
    assert (load_prices().find(model) is not None) is known


def test_a_users_rows_win(own: Path) -> None:
    own.write_text("date = 2026-12-01\n[openai]\ngpt-5 = { input = 9.0, output = 9.0 }\n")
    table = load_prices()
    assert table.find("openai:gpt-5") == Price(input=9.0, output=9.0)
    assert table.find("anthropic:claude-sonnet-5") is not None
    assert str(table.date) == "2026-12-01"


def test_rows_given_with_a_search_win_over_every_file(own: Path) -> None:
    own.write_text("date = 2026-12-01\n[openai]\ngpt-5 = { input = 9.0, output = 9.0 }\n")
    mine = Price(input=1.0, output=2.0)
    assert load_prices({"openai:gpt-5": mine}).find("openai:gpt-5") == mine


@pytest.mark.parametrize(
    "text",
    ["[openai]\n", "date = 2026-12-01\n[openai]\ngpt-5 = 3\n", "date = \n", "date = 1\nopenai = 2"],
)
def test_a_file_that_is_no_table_is_named(own: Path, text: str) -> None:
    own.write_text(text)
    with pytest.raises(InputError, match=r"prices\.toml"):
        load_prices()
