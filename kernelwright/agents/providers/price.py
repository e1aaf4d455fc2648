"""What tokens cost, from one dated table that a user may extend."""

import datetime
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from kernelwright.agents.message import Usage
from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record

PRICES_VARIABLE = "KERNELWRIGHT_PRICES"
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
_MILLION = 1_000_000


class Price(Record):
    """Dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    hour_write: float | None = None
    """For what a cache keeps for an hour; twice the input where the table does not say."""

    def dollars(self, usage: Usage) -> float:
        """Return what a call with this usage costs."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
            + usage.hour_write_tokens * self._hour_write
        )
        return total / _MILLION

    def shared(self, share: float) -> "Price":
        """Return a share of every price, as for what a provider answers when it has time."""
        told = self.model_dump(exclude_none=True)
        return Price.model_validate({name: dollars * share for name, dollars in told.items()})

    @property
    def _hour_write(self) -> float:
        return 2 * self.input if self.hour_write is None else self.hour_write

    def worst(self, input_tokens: int, output_tokens: int, *, for_an_hour: bool = False) -> float:
        """Return what at most so many tokens can cost, whatever the cache does."""
        dearest = max(self.input, self.cache_write or 0.0, self.cache_read or 0.0)
        if for_an_hour:
            dearest = max(dearest, self._hour_write)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


FREE = Price(input=0.0, output=0.0)
"""What a server of one's own costs."""


@dataclass(frozen=True)
class PriceTable:
    """Prices by `provider:model`, with the day on which they were read."""

    date: datetime.date
    rows: dict[str, Price]

    def find(self, model: str) -> Price | None:
        """Return the price of `provider:model`, of its base name for a dated snapshot."""
        return self.rows.get(model) or self.rows.get(_SNAPSHOT.sub("", model))


def load_prices(own: Mapping[str, Price] | None = None) -> PriceTable:
    """Read the packaged table and the user's, whose rows win; `own` rows win over both.

    Raises:
        InputError: the user's file is not a price table.
    """
    packaged = files("kernelwright.agents.providers").joinpath("prices.toml").read_text("utf-8")
    table = _parse(packaged, "prices.toml")
    path = user_prices()
    if path.is_file():
        users = _parse(path.read_text("utf-8"), str(path))
        table = PriceTable(users.date, {**table.rows, **users.rows})
    return PriceTable(table.date, {**table.rows, **(own or {})})


def user_prices() -> Path:
    """Return where a user's own price table is looked for."""
    named = os.environ.get(PRICES_VARIABLE)
    return Path(named) if named else platformdirs.user_config_path("kernelwright") / "prices.toml"


def _parse(text: str, name: str) -> PriceTable:
    try:
        data = tomllib.loads(text)
        date = data.pop("date")
        data.pop("sources", None)
        rows = {
            f"{provider}:{model}": Price.model_validate(price)
            for provider, models in data.items()
            for model, price in models.items()
        }
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, ValidationError) as e:
        raise InputError(
            f"expected `date` and tables of models with `input` and `output` prices in {name}, "
            f"found {str(e).splitlines()[0]!r}; compare it with the packaged prices.toml."
        ) from e
    return PriceTable(date, rows)
