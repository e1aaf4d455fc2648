"""What tokens cost, from one dated table that a user may extend."""

import datetime
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import Field, ValidationError

from kernelwright.agents.message import Usage
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

PRICES_VARIABLE = "KERNELWRIGHT_PRICES"
WRITE_MULTIPLE = 1.25
"""Of the input price, for what a cache keeps for minutes: Anthropic's five, and the thirty of
OpenAI's models that bill writes (https://platform.claude.com/docs/en/build-with-claude/prompt-caching
and https://developers.openai.com/api/docs/guides/prompt-caching)."""
HOUR_WRITE_MULTIPLE = 2.0
"""Of the input price, for what Anthropic's cache keeps for an hour."""
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
_MILLION = 1_000_000
_DEAREST = 1_000_000.0
"""A dollar a token: far above any price, and no sum of such overflows."""
Dollars = Annotated[float, Field(ge=0, le=_DEAREST, allow_inf_nan=False, strict=True)]


class PriceError(ValueError):
    """A row or a file is no price; a sentence without its end, for whoever knows the place."""


class Price(Record):
    """Dollars per million tokens."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    """The input's where nobody says otherwise."""
    cache_write: Dollars | None = None
    """1.25 times the input's where nobody says otherwise."""
    hour_write: Dollars | None = None
    """For what a cache keeps for an hour; twice the input's where nobody says otherwise."""

    def dollars(self, usage: Usage) -> float:
        """Return what a call with this usage costs."""
        total = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self._read
            + usage.cache_write_tokens * self._write
            + usage.hour_write_tokens * self._hour_write
        )
        return total / _MILLION

    def shared(self, share: float) -> "Price":
        """Return a share of every price, as for what a provider answers when it has time."""
        told = self.model_dump(exclude_none=True)
        return Price.model_validate({name: dollars * share for name, dollars in told.items()})

    @property
    def _read(self) -> float:
        return self.input if self.cache_read is None else self.cache_read

    @property
    def _write(self) -> float:
        return WRITE_MULTIPLE * self.input if self.cache_write is None else self.cache_write

    @property
    def _hour_write(self) -> float:
        return HOUR_WRITE_MULTIPLE * self.input if self.hour_write is None else self.hour_write

    def worst(self, input_tokens: int, output_tokens: int, *, for_an_hour: bool = False) -> float:
        """Return what at most so many tokens can cost, whatever the cache does."""
        dearest = max(self.input, self._write, self._read)
        if for_an_hour:
            dearest = max(dearest, self._hour_write)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


FREE = Price(input=0.0, output=0.0)
"""What a server of one's own costs."""


@cache
def _billers() -> list[str]:
    # The clients of the providers come with an extra.
    from kernelwright.agents.providers.registry import PROVIDERS

    return sorted({provider.key_of for provider in PROVIDERS.values()})


_KEYS = ", ".join(Price.model_fields)


@dataclass(frozen=True)
class PriceTable:
    """Prices by `provider:model`, with the day on which they were read."""

    date: datetime.date
    rows: dict[str, Price]
    origins: dict[str, str] = field(default_factory=dict)
    """Where rows come from that are not the packaged table's."""

    def find(self, model: str) -> Price | None:
        """Return the price of `provider:model`, of its base name for a dated snapshot."""
        return self.rows.get(model) or self.rows.get(_SNAPSHOT.sub("", model))

    def origin(self, model: str) -> str:
        """Say in two words or three where a model's price comes from."""
        name = model if model in self.rows else _SNAPSHOT.sub("", model)
        return self.origins.get(name, f"prices of {self.date}")

    def extended(self, rows: Mapping[str, Price], origin: str) -> "PriceTable":
        """Return the table with further rows, which win."""
        origins = {**self.origins, **dict.fromkeys(rows, origin)}
        return PriceTable(self.date, {**self.rows, **rows}, origins)


def load_prices(own: Mapping[str, Price] | None = None) -> PriceTable:
    """Read the packaged table and the user's, whose rows win; `own` rows win over both.

    Raises:
        InputError: the user's file is no price table; names the file, the key and what it holds.
    """
    packaged = files("kernelwright.agents.providers").joinpath("prices.toml").read_text("utf-8")
    table = _parse(packaged, "prices.toml")
    path = user_prices()
    if PRICES_VARIABLE in os.environ or path.is_file():
        users = _parse(_text_of(path), str(path))
        table = table.extended(users.rows, f"your prices of {users.date}")
    return table.extended(own or {}, "your prices")


def user_prices() -> Path:
    """Return where a user's own price table is looked for."""
    named = os.environ.get(PRICES_VARIABLE)
    return Path(named) if named else platformdirs.user_config_path("kernelwright") / "prices.toml"


def prices_in(rows: Mapping[str, object]) -> dict[str, Price]:
    """Read rows by `provider:model`.

    Raises:
        PriceError: one is no price; names the key and what it holds.
    """
    return {name: _price(name, row) for name, row in rows.items()}


def _price(name: str, row: object) -> Price:
    provider, _, model = name.partition(":")
    if not model or provider not in _billers():
        expected = " or ".join(f"{biller}:NAME" for biller in _billers())
        raise PriceError(f"{name!r} names no model that has a price; expected {expected}")
    if isinstance(row, Price):
        return row
    if not isinstance(row, Mapping):
        raise PriceError(
            f"{name} = {row!r} is no price; expected {{ input = 2.5, output = 15.0 }}, in dollars "
            "per million tokens"
        )
    try:
        return Price.model_validate(dict(row))
    except ValidationError as e:
        raise PriceError(_problem(name, e)) from e


def _problem(name: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{name} has no {key}; a price names at least input and output"
    if first["type"] == "extra_forbidden":
        return f"{name}: {key} is no key of a price; its keys are {_KEYS}"
    return (
        f"{name}: {key} = {first['input']!r} is no price; expected dollars per million tokens, "
        "zero or more"
    )


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(
            f"expected a price table at {str(path)!r}, found nothing readable; "
            f"write one, or set {PRICES_VARIABLE} to another file."
        ) from e


def _parse(text: str, name: str) -> PriceTable:
    try:
        data = tomllib.loads(text)
        data.pop("sources", None)
        date = _date(data.pop("date", None))
        return PriceTable(date, prices_in(_rows(data)))
    except ValueError as e:
        raise InputError(f"{name} is no price table: {e}.") from e


def _date(found: object) -> datetime.date:
    if isinstance(found, datetime.date):
        return found
    told = "none" if found is None else f"date = {found!r}"
    raise PriceError(f"expected a line such as date = 2026-12-01, found {told}")


def _rows(data: Mapping[str, object]) -> dict[str, object]:
    """Return the rows of a file, under their provider's table or under their whole name."""
    rows: dict[str, object] = {}
    for key, content in data.items():
        if ":" in key:
            rows[key] = content
        elif key in _billers() and isinstance(content, Mapping):
            rows.update((f"{key}:{model}", row) for model, row in content.items())
        else:
            tables = " and ".join(f"[{biller}]" for biller in _billers())
            raise PriceError(f"{key!r} is no table of prices; expected {tables}")
    return rows
