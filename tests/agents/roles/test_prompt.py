"""Prompts: rendered as reviewed, versioned by content, their examples sound, their secrets kept."""

from pathlib import Path

import pytest

from kernelwright.agents.roles import prompt
from kernelwright.agents.roles.coder_prompt import Brief, Start, coder_prompt
from kernelwright.agents.roles.lesson import Advice, Lesson
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.prompt import source, version
from kernelwright.agents.roles.repairer import repairer_prompt
from tests.agents.loopback.scene import (
    DEVICE,
    TASK,
    correct,
    racing,
    timed_out,
    uncompiled,
    unproven,
    wrong_at_the_tail,
)

GOLDEN = Path(__file__).parents[1] / "golden"


VECTORS = Lesson(
    kind="elementwise",
    subject="vector loads",
    advice=Advice.USE,
    text="Vector loads won on 9 of 10 elementwise tasks.",
    evidence=("e1", "e2", "e3"),
    device=DEVICE.chip,
    strength=8,
)
RENDERINGS = {
    "coder-first": lambda: coder_prompt(TASK, DEVICE, (), Brief()),
    "coder-later": lambda: coder_prompt(
        TASK,
        DEVICE,
        (uncompiled(), wrong_at_the_tail(), correct(), unproven()),
        Brief(
            start=Start(improve=correct()),
            strategy="Several elements a thread.",
            lessons=(VECTORS,),
        ),
    ),
    "repairer-compile": lambda: repairer_prompt(TASK, DEVICE, uncompiled()),
    "repairer-race": lambda: repairer_prompt(TASK, DEVICE, racing()),
    "repairer-tail": lambda: repairer_prompt(TASK, DEVICE, wrong_at_the_tail()),
    "repairer-timeout": lambda: repairer_prompt(TASK, DEVICE, timed_out()),
    "repairer-unproven": lambda: repairer_prompt(TASK, DEVICE, unproven()),
    "planner": lambda: planner_prompt(TASK.graph, DEVICE),
}


@pytest.mark.parametrize("name", RENDERINGS)
def test_renderings_are_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    rendered = RENDERINGS[name]().text + "\n"
    golden = GOLDEN / f"{name}.md"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(rendered)
    assert rendered == golden.read_text()


@pytest.mark.parametrize("name", RENDERINGS)
def test_no_closed_check_shows_in_any_prompt(name: str) -> None:
    rendered = RENDERINGS[name]().text
    for secret in ("4093", "7431", "seed", "99", "hidden"):
        assert secret not in rendered


def test_the_stable_parts_do_not_change_from_call_to_call() -> None:
    first, later = RENDERINGS["coder-first"](), RENDERINGS["coder-later"]()
    assert (first.system, first.context) == (later.system, later.context)
    assert first.request != later.request


def test_a_template_version_follows_what_it_includes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = version("coder")
    monkeypatch.setattr(
        prompt, "source", lambda name: source(name) + ("!" if name == "rules.md" else "")
    )
    assert prompt.version("coder") != before
    assert prompt.version("planner") == version("planner")


def test_prompts_stay_short() -> None:
    assert len(RENDERINGS["coder-first"]().system) < 14_000
    assert len(RENDERINGS["repairer-race"]().text) < 11_000
