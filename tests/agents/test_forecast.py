"""What a search may take is said before it starts."""

import re

import mlx.core as mx
import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.session import Price
from kernelwright.campaign import SearchSpec
from kernelwright.campaign.planning.forecast import forecast, size_warning
from kernelwright.ir import capture
from tests.agents.loopback.scene import TASK


def test_a_live_model_is_forecast_with_its_cap() -> None:
    spec = SearchSpec(models=("anthropic:claude-sonnet-5",), caps=Caps(dollars=2.0))
    expected = forecast([TASK.graph], spec)
    assert expected is not None
    assert expected.calls == 16
    assert expected.dollars is not None
    assert 0.02 < expected.dollars < 1.0
    assert "never more than $2.00" in expected.sentence


def test_what_one_task_may_take_is_said_too() -> None:
    caps, task_caps = Caps(dollars=2.0), Caps(calls=5, seconds=90)
    spec = SearchSpec(models=("openai:gpt-5",), caps=caps, task_caps=task_caps)
    expected = forecast([TASK.graph], spec)
    assert expected is not None
    assert expected.cap == "never more than $2.00, 5 calls a task, 1 min 30 s a task"


@pytest.mark.parametrize("caps", [Caps(calls=5), Caps(tokens=40_000), Caps(dollars=0.1)])
def test_no_task_is_forecast_beyond_its_caps(caps: Caps) -> None:
    spec = SearchSpec(models=("anthropic:claude-sonnet-5",))
    free, held = (
        forecast([TASK.graph], spec.model_copy(update={"task_caps": c})) for c in (Caps(), caps)
    )
    assert free is not None
    assert held is not None
    assert 1 < held.calls < free.calls
    # The plan is of no task yet.
    assert caps.calls is None or held.calls == caps.calls + 1


def test_a_price_of_ones_own_counts() -> None:
    price = Price(input=1000.0, output=1000.0)
    spec = SearchSpec(models=("openai:gpt-unheard-of",), prices={"openai:gpt-unheard-of": price})
    expected = forecast([TASK.graph], spec)
    assert expected is not None
    assert expected.dollars == pytest.approx(expected.tokens / 1000)


def test_every_model_is_priced() -> None:
    models = ("anthropic:claude-sonnet-5", "openai:gpt-5-mini", "openai:gpt-unheard-of")
    expected = forecast([TASK.graph], SearchSpec(models=models, candidates_per_task=4))
    assert expected is not None
    assert re.search(
        r"claude-sonnet-5: about 6 calls, [\d,]+ tokens, \$\d\.\d\d \(prices of [\d-]+\); from "
        r"openai:gpt-5-mini alone \$\d\.\d\d \(.*\); "
        r"from openai:gpt-unheard-of alone no price known",
        expected.sentence,
    )


@pytest.mark.parametrize("models", [(), ("none",), ("replay:ab12",)])
def test_what_costs_nothing_needs_no_forecast(models: tuple[str, ...]) -> None:
    assert forecast([TASK.graph], SearchSpec(models=models)) is None


def test_an_unknown_price_is_admitted() -> None:
    expected = forecast([TASK.graph], SearchSpec(models=("openai:gpt-unheard-of",)))
    assert expected is not None
    assert expected.dollars is None
    assert "no price known" in expected.sentence
    assert "--budget sets one" in expected.sentence


@pytest.mark.parametrize(("rows", "is_warned"), [(512, False), (2048, True)])
def test_who_gives_a_simulator_too_much_is_told(rows: int, is_warned: bool) -> None:
    arrays = (mx.zeros((rows, 14336), mx.float16),) * 2
    graph = capture(lambda gate, up: gate * mx.sigmoid(gate) * up, *arrays)
    warning = size_warning("swiglu", graph)
    assert bool(warning) is is_warned
    assert not is_warned or "88 million elements" in warning
