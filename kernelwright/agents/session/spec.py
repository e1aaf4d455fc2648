"""Which model: `anthropic:NAME`, `openai:NAME`, `replay:CAMPAIGN`, `none`, as text as record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Self, get_args
from urllib.parse import urlsplit

from kernelwright.agents.budget import Budget, Caps
from kernelwright.agents.providers.batch import PRICE_SHARE
from kernelwright.agents.providers.client import Effort, Endpoint, Limits, ProviderClient
from kernelwright.agents.providers.key import Key, find_key
from kernelwright.agents.providers.price import FREE, Price, PriceTable, load_prices
from kernelwright.agents.providers.registry import PROVIDERS, provider_of
from kernelwright.agents.session.async_bridge import Remark, silently
from kernelwright.agents.session.conversation import Conversations, Exchange
from kernelwright.agents.session.ledger import Ledger, RecordedCall
from kernelwright.agents.session.live import LiveExchange, Patience, Recollection, unpriced
from kernelwright.agents.session.replay import ReplayExchange
from kernelwright.errors import UsageError
from kernelwright.metal.diagnostic import Record

_NOT_LIVE = ("replay", "none")
_EFFORTS = get_args(Effort)


def _is_base(url: str) -> bool:
    """Say whether paths of an API can be put behind a URL."""
    try:
        parts = urlsplit(url)
        # A number that is no port raises an error.
        is_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_bare = not {"?", "#"} & set(url) and "".join(url.split()) == url
    return parts.scheme in ("http", "https") and is_place and is_bare


class ModelSpec(Record):
    """A model as a person names it."""

    provider: str
    name: str = ""
    base_url: str | None = None
    effort: Effort | None = None
    """How hard it shall think; None leaves it to the provider."""

    @classmethod
    def parse(cls, text: str, base_url: str | None = None) -> Self:
        """Read `provider:name`, or `provider:name@effort`.

        Raises:
            UsageError: the provider is unknown, the name is missing or the URL is none.
        """
        provider, _, name = text.strip().partition(":")
        known = (*PROVIDERS, *_NOT_LIVE)
        if provider not in known or bool(name) is (provider == "none"):
            live = ", ".join(f"{name}:NAME" for name in PROVIDERS)
            raise UsageError(
                f"expected a model as {live}, replay:CAMPAIGN or none, found {text!r}."
            )
        stem, _, effort = name.rpartition("@")
        if not (stem and effort in _EFFORTS and provider in PROVIDERS):
            stem, effort = name, ""
        if base_url is not None and not _is_base(base_url):
            raise UsageError(
                "expected a base URL with a host, and nothing behind its path, such as "
                f"http://127.0.0.1:8080/v1, found {base_url!r}."
            )
        return cls.model_validate(
            {
                "provider": provider,
                "name": stem,
                "base_url": base_url,
                "effort": effort or None,
            }
        )

    @property
    def is_live(self) -> bool:
        """True when using it means sending requests."""
        return self.provider in PROVIDERS

    @property
    def asks_by_the_batch(self) -> bool:
        """True when replies may take hours and cost half."""
        return self.is_live and PROVIDERS[self.provider].asks_by_the_batch

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}" if self.name else self.provider


class ChatSettings(Record):
    """How patiently and how widely to talk; the defaults suit people and their providers."""

    limits: Limits = Limits()
    patience: Patience = Patience()
    concurrency: int = 4


Rewire = Callable[[ProviderClient], ProviderClient]
"""Puts something between an exchange and its server."""
USUAL_SETTINGS = ChatSettings()


def open_client(spec: ModelSpec, limits: Limits) -> ProviderClient:
    """Return the wire of a live model.

    Raises:
        ModelError: no key can be found.
    """
    provider = provider_of(spec.provider, spec.base_url)
    limits = limits_of(spec, limits)
    endpoint = Endpoint(spec.provider, spec.name, key_of(spec), spec.base_url, spec.effort)
    return provider.open(endpoint, limits)


def key_of(spec: ModelSpec) -> Key:
    """Return the key by which a live model is asked.

    Raises:
        ModelError: one is required and none can be found.
    """
    provider = provider_of(spec.provider, spec.base_url)
    # A server of one's own seldom wants a key.
    return find_key(provider.key_of, is_required=spec.base_url is None)


def limits_of(spec: ModelSpec, limits: Limits) -> Limits:
    """Return a model's limits: one that is asked by the batch may take a day."""
    if not spec.asks_by_the_batch:
        return limits
    return limits.model_copy(update={"total_s": limits.batch_s})


def price_name(spec: ModelSpec) -> str:
    """Return under which name a model's price is found, whichever way it is asked."""
    key_of = PROVIDERS[spec.provider].key_of if spec.is_live else spec.provider
    return f"{key_of}:{spec.name}"


def price_of(spec: ModelSpec, table: PriceTable) -> Price | None:
    """Return a model's price; a server of one's own is free unless the table says otherwise."""
    price = table.find(price_name(spec)) or (FREE if spec.base_url is not None else None)
    return price.shared(PRICE_SHARE) if price and spec.asks_by_the_batch else price


def check_prices(
    specs: Sequence[ModelSpec], caps: Sequence[Caps], prices: Mapping[str, Price] | None = None
) -> None:
    """Refuse a live model without a price under a cap in dollars.

    Raises:
        ModelError: there is one.
    """
    if all(cap.dollars is None for cap in caps):
        return
    table = load_prices(prices)
    for spec in specs:
        if spec.is_live and price_of(spec, table) is None:
            raise unpriced(str(spec))


def open_model(
    specs: Sequence[ModelSpec],
    *,
    ledger: Ledger,
    budget: Budget,
    recorded: Callable[[str], Sequence[RecordedCall]],
    settings: ChatSettings = USUAL_SETTINGS,
    prices: Mapping[str, Price] | None = None,
    rewire: Rewire = lambda wire: wire,
    remark: Remark = silently,
) -> Conversations | None:
    """Return the conversation partner for a list of models, later ones as fallbacks.

    `recorded` gives the calls of a campaign for `replay:`; `prices` win over the tables on disk;
    `rewire` is for rehearsals; `remark` is told why a reply takes long. What the ledger holds
    already is counted into `budget` and never paid for again. None when the only model is `none`.

    Raises:
        ModelError: a key is missing, or a price under a cap in dollars.
    """
    check_prices(specs, (budget.campaign, budget.per_task), prices)
    calls = ledger.calls()
    budget.restore((call.call.purpose.task, call.cost, call.latency_s) for call in calls)
    recollection = Recollection(calls)
    table = load_prices(prices)
    exchanges: list[Exchange] = []
    for spec in specs:
        if spec.provider == "replay":
            exchanges.append(ReplayExchange(spec.name, recorded(spec.name), ledger))
        elif spec.is_live:
            exchanges.append(
                LiveExchange(
                    wire=rewire(open_client(spec, settings.limits)),
                    price=price_of(spec, table),
                    ledger=ledger,
                    budget=budget,
                    recollection=recollection,
                    limits=limits_of(spec, settings.limits),
                    patience=settings.patience,
                    remark=remark,
                )
            )
    return Conversations(exchanges, concurrency=settings.concurrency) if exchanges else None
