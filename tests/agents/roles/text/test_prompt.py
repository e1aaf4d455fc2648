"""Prompts: rendered as reviewed, versioned by content, their examples sound, their secrets kept."""

from pathlib import Path

import pytest

from kernelwright.agents.protocols import Proposal
from kernelwright.agents.roles.lesson import Advice, Lesson
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.repairer import repairer_prompt
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text import prompt
from kernelwright.agents.roles.text.coder_prompt import Brief, Start, coder_prompt, next_step
from kernelwright.agents.roles.text.program_text import short_id
from kernelwright.agents.roles.text.prompt import source, version
from kernelwright.agents.session.tools.schema import WITHOUT_TRIALS
from kernelwright.agents.session.workbench import Sibling
from tests.agents.loopback.scene import (
    DEVICE,
    FIXED_TAIL,
    QUARTER,
    TASK,
    correct,
    draft,
    racing,
    timed_out,
    uncompiled,
    unproven,
    wrong_at_the_tail,
)

GOLDEN = Path(__file__).parents[2] / "golden"


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


def sibling() -> Sibling:
    program = draft(FIXED_TAIL, grid=QUARTER).program(Interface(TASK))
    return Sibling(name="5ib11ng0", task="other f32[7,71]", idea="Quarters.", program=program)


def test_a_task_without_a_program_begins_from_a_siblings() -> None:
    first = coder_prompt(TASK, DEVICE, (), Brief(siblings=(sibling(),))).request
    assert "Begin from the first of them where it fits" in first
    assert "uint start = thread_position_in_grid.x * 4;" in first
    later = coder_prompt(TASK, DEVICE, (correct(),), Brief(siblings=(sibling(),))).request
    assert "`5ib11ng0` for other f32[7,71]: Quarters." in later
    assert "Begin from" not in later


def test_another_island_is_shown_with_what_bounds_it_and_may_be_combined() -> None:
    other = correct().model_copy(update={"proposal": sibling_proposal()})
    start = Start(improve=correct(), inspirations=(other,), combines=True)
    text = coder_prompt(TASK, DEVICE, (correct(), other), Brief(start=start)).request
    assert "Right programs that go about it in another way" in text
    assert "Bound by launch." in text
    assert "uint start = thread_position_in_grid.x * 4;" in text
    assert "Write one program that keeps what is good about each of them" in text


def sibling_proposal() -> Proposal:
    return Proposal(program=sibling().program, author="openai:gpt-5", idea="Quarters.")


def test_an_open_conversation_is_told_what_is_next_without_texts_that_it_knows() -> None:
    quarter = correct().model_copy(
        update={
            "proposal": Proposal(
                program=draft(FIXED_TAIL, grid=QUARTER).program(Interface(TASK)),
                author="openai:gpt-5",
                idea="Four a thread.",
            )
        }
    )
    start = Start(improve=correct(), inspirations=(quarter,), combines=True)
    known = {correct().proposal.program.id}
    told = next_step(TASK, start, known)
    assert "uint start = thread_position_in_grid.x * 4;" in told
    assert f"keeps what is good about `{short_id(TASK, correct().proposal.program)}`" in told
    again = next_step(TASK, start, known | {quarter.proposal.program.id})
    assert "Four a thread." in again
    assert "```" not in again
    assert next_step(TASK, Start(), known) == "Next, try an idea that is not among those so far."
    bound = correct().evaluation.bound
    assert bound
    improved = next_step(TASK, Start(improve=correct()), known)
    assert f"(bound by {bound}). Go for what bounds it." in improved


def test_a_model_without_trials_is_offered_and_told_of_none() -> None:
    blind = coder_prompt(TASK, DEVICE, (), Brief(tool_names=WITHOUT_TRIALS))
    assert [tool.name for tool in blind.tools] == ["submit", "done"]
    assert "Nothing can be tried before it is submitted" in blind.system
    assert "`measure(" not in blind.system
