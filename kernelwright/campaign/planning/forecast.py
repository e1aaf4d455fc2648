"""What a search will roughly take, said before it starts."""

import math
from collections.abc import Iterable, Iterator

from kernelwright.agents.budget import Caps, Cost
from kernelwright.agents.cap_text import in_dollars
from kernelwright.agents.providers.price import Price, PriceTable
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.text.coder_prompt import Brief, coder_prompt
from kernelwright.agents.session import ModelSpec, Usage, load_prices
from kernelwright.agents.session.spec import price_name, price_of
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.plan import partition
from kernelwright.plural import counted
from kernelwright.search.spec import SearchSpec

_BYTES_PER_TOKEN = 3.5
"""Of English and code, by the tokenizers of the day; caps rest on a bound instead."""
_TURN_TOKENS = 1500
"""Of a turn of a conversation, its thinking included."""
_CACHED_SHARE = 0.7
"""Of what a turn reads after the first."""
_TURN_BYTES = 5000
"""What a turn and the answers to it add to the history."""
_TURNS_A_DRAFT = 2.5
"""Checks, measurements and edits, for a program that is submitted."""
_PLAN_TOKENS = 800
_MODEL_SHARE = 0.5
"""Of a task's candidates: the rest are schedules and tuning, which cost nothing."""
_MANY_MILLIONS = 30
_NOWHERE = DeviceInfo(name="simulator", chip="", runtime="", measures_time=False)


class Forecast(Record):
    """A guess at calls, tokens and dollars; the caps are what holds."""

    model: str
    calls: int
    tokens: int
    dollars: float | None
    """None where no price is known."""
    prices_of: str
    """Where the price comes from."""
    cap: str
    others: tuple[str, ...] = ()
    """What the same calls would take from each further model, each in a few words."""

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        alone = f"; from {'; from '.join(self.others)}" if self.others else ""
        return (
            f"{self.model}: about {counted(self.calls, 'call')}, {counted(self.tokens, 'token')}, "
            f"{_money(self.dollars)} ({self.prices_of}){alone}; {self.cap}"
        )


def forecast(graphs: Iterable[Graph], spec: SearchSpec) -> Forecast | None:
    """Guess what a search will take; None where no live model is asked."""
    named = [ModelSpec.parse(name, spec.base_url) for name in spec.models]
    live = [model for model in named if model.is_live]
    if not live:
        return None
    prices = load_prices(spec.prices)
    price = price_of(live[0], prices)
    expected = [call for graph in graphs for call in _calls(graph, spec, price)]
    usage = Usage(
        input_tokens=sum(call.input_tokens for call in expected),
        cache_read_tokens=sum(call.cache_read_tokens for call in expected),
        output_tokens=sum(call.output_tokens for call in expected),
    )
    first, *further = [(model, _dollars(model, prices, usage)) for model in live]
    return Forecast(
        model=str(first[0]),
        calls=len(expected),
        tokens=usage.total_tokens,
        dollars=first[1],
        prices_of=_origin(first[0], prices),
        cap=_cap(spec),
        others=tuple(
            f"{model} alone {_money(dollars)} ({_origin(model, prices)})"
            for model, dollars in further
        ),
    )


def _dollars(model: ModelSpec, prices: PriceTable, usage: Usage) -> float | None:
    price = price_of(model, prices)
    return None if price is None else price.dollars(usage)


def _money(dollars: float | None) -> str:
    if dollars is None:
        return "no price known"
    # An estimate is no truer than to the cent, where it is as much.
    return in_dollars(round(dollars, 2) or dollars)


def _origin(model: ModelSpec, prices: PriceTable) -> str:
    name = price_name(model)
    if prices.find(name) is None and model.base_url is not None:
        return "your own server's calls are free"
    return prices.origin(name)


def size_warning(name: str, graph: Graph) -> str:
    """Say that a simulator will take long over a function; nothing where it will not."""
    millions = graph.element_count / 1e6
    if millions < _MANY_MILLIONS:
        return ""
    return (
        f"{name} has {millions:.0f} million elements, over which a simulator takes minutes; with "
        "fewer rows it finds the same kernels."
    )


def _calls(graph: Graph, spec: SearchSpec, price: Price | None) -> Iterator[Usage]:
    """The calls that one function will need: a plan, and a task's programs and corrections."""
    yield _usage(planner_prompt(graph, _NOWHERE).opening_bytes, _PLAN_TOKENS)
    drafts = math.ceil(spec.candidates_per_task * _MODEL_SHARE)
    for region in partition(graph):
        task = Task(region.extract(), "task")
        prompt = coder_prompt(task, _NOWHERE, (), Brief())
        turns = (
            _usage(prompt.opening_bytes + turn * _TURN_BYTES, _TURN_TOKENS, is_cached=turn > 0)
            for turn in range(math.ceil(drafts * _TURNS_A_DRAFT))
        )
        yield from _within(turns, spec.task_caps, price)


def _within(turns: Iterable[Usage], caps: Caps, price: Price | None) -> Iterator[Usage]:
    """Yield a task's calls as far as its caps let it go."""
    spent = Cost()
    for usage in turns:
        dollars = 0.0 if price is None else price.dollars(usage)
        spent += Cost(dollars=dollars, tokens=usage.total_tokens, calls=1)
        if caps.are_exceeded_by(spent):
            return
        yield usage


def _usage(prompt_bytes: int, output_tokens: int, *, is_cached: bool = False) -> Usage:
    input_tokens = math.ceil(prompt_bytes / _BYTES_PER_TOKEN)
    cached = int(input_tokens * _CACHED_SHARE) if is_cached else 0
    return Usage(
        input_tokens=input_tokens - cached, cache_read_tokens=cached, output_tokens=output_tokens
    )


def _cap(spec: SearchSpec) -> str:
    parts = [*spec.caps.limits, *(f"{limit} a task" for limit in spec.task_caps.limits)]
    return (
        f"never more than {', '.join(parts)}"
        if parts
        else "without a cap; --budget sets one, or [caps] in a campaign's file"
    )
