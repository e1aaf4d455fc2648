"""One dated table of prices, which a user's file extends."""

from pathlib import Path

import pytest

from kernelwright.agents.message import Usage
from kernelwright.agents.providers.price import PRICES_VARIABLE, Price, load_prices
from kernelwright.campaign.spec.campaign_file import read_campaign_file
from kernelwright.errors import InputError

TABLE = "date = 2026-12-01\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
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
    assert table.origin("openai:gpt-5") == "your prices of 2026-12-01"


def test_rows_given_with_a_search_win_over_every_file(own: Path) -> None:
    own.write_text("date = 2026-12-01\n[openai]\ngpt-5 = { input = 9.0, output = 9.0 }\n")
    mine = Price(input=1.0, output=2.0)
    assert load_prices({"openai:gpt-5": mine}).find("openai:gpt-5") == mine


def test_cache_writes_cost_their_multiple_whatever_a_row_names() -> None:
    usage = Usage(cache_write_tokens=1_000_000, hour_write_tokens=1_000_000)
    assert Price(input=30.0, output=150.0).dollars(usage) == pytest.approx(37.5 + 60.0)
    assert Price(input=30.0, output=150.0, cache_read=3.0).dollars(usage) == pytest.approx(97.5)
    named = Price(input=30.0, output=150.0, cache_write=40.0, hour_write=50.0)
    assert named.dollars(usage) == pytest.approx(90.0)


def test_a_row_may_stand_under_its_whole_name(own: Path) -> None:
    own.write_text(TABLE + '"openai:gpt-5" = { input = 9.0, output = 9.0 }\n')
    assert load_prices().find("openai:gpt-5") == Price(input=9.0, output=9.0)


def test_each_price_says_where_it_comes_from(own: Path) -> None:
    own.write_text(TABLE + "[openai]\ngpt-5 = { input = 9.0, output = 9.0 }\n")
    table = load_prices({"openai:mine": Price(input=1.0, output=2.0)})
    assert table.origin("openai:gpt-5-2026-04-01") == "your prices of 2026-12-01"
    assert table.origin("openai:mine") == "your prices"
    assert table.origin("anthropic:claude-sonnet-5").startswith("prices of 20")


BAD_PRICES = [
    ("-1.0", r"anthropic:c: input = -1.0 is no price; expected dollars per million"),
    ("nan", r"anthropic:c: input = nan is no price"),
    ("inf", r"anthropic:c: input = inf is no price"),
    ('"2"', r"anthropic:c: input = '2' is no price"),
    ("true", r"anthropic:c: input = True is no price"),
    ("1e300", r"anthropic:c: input = 1e\+300 is no price"),
]


@pytest.mark.parametrize(("value", "words"), BAD_PRICES)
def test_a_price_that_is_none_is_named_in_a_file_and_in_a_night(
    own: Path, tmp_path: Path, value: str, words: str
) -> None:
    own.write_text(f"{TABLE}[anthropic]\nc = {{ input = {value}, output = 1.0 }}\n")
    with pytest.raises(InputError, match=rf"prices\.toml is no price table: {words}"):
        load_prices()
    night = tmp_path / "night.toml"
    row = f'"anthropic:c" = {{ input = {value}, output = 1.0 }}'
    night.write_text(f'[[functions]]\ntarget = "catalog:softmax"\n[prices]\n{row}\n')
    with pytest.raises(InputError, match=rf"night\.toml, line 3: \[prices\]: {words}"):
        read_campaign_file(night)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[openai]\n", "expected a line such as date = 2026-12-01, found none"),
        ("date = 1\n", "expected a line such as date = 2026-12-01, found date = 1"),
        ("date = \n", "Invalid value"),
        (TABLE + "[openai]\ngpt-5 = 3\n", "openai:gpt-5 = 3 is no price; expected { input"),
        (TABLE + "openai = 2\n", r"'openai' is no table of prices; expected \[anthropic\] and"),
        (TABLE + '[models."openai:m"]\ninput = 1\n', "'models' is no table of prices"),
        (TABLE + '["gpt:m"]\ninput = 1\n', "'gpt:m' names no model that has a price"),
        (TABLE + "[openai]\nm = { input = 1.0 }\n", "openai:m has no output"),
        (
            TABLE + "[openai]\nm = { input = 1.0, output = 1.0, cached = 1.0 }\n",
            "openai:m: cached is no key of a price; its keys are input, output, cache_read",
        ),
    ],
)
def test_a_file_that_is_no_table_is_named_with_its_key(own: Path, text: str, words: str) -> None:
    own.write_text(text)
    with pytest.raises(InputError, match=rf"prices\.toml is no price table: .*{words}"):
        load_prices()


def test_a_named_file_that_is_not_there_is_missed(own: Path) -> None:
    own.unlink()
    with pytest.raises(InputError, match=r"expected a price table at .*prices\.toml"):
        load_prices()
