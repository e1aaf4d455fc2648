"""A campaign is replayed from all of its runs, whichever of them is named."""

import re
from pathlib import Path

import pytest

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose, ToolResult, Turn
from kernelwright.agents.session.ledger import Call, Outcome
from kernelwright.agents.session.transcript_text import transcript_lines
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.history.ledger import (
    StoreLedger,
    calls_to_replay,
    conversations_about,
    conversations_in,
)
from kernelwright.errors import InputError
from kernelwright.service.commands import app
from kernelwright.store import Campaign, KernelStore
from tests.campaign.scripted import INFO
from tests.store.conftest import new_trial, program_of, task_of


@pytest.mark.parametrize("named", [0, 1, 2])
def test_any_run_names_the_campaign_whose_replies_are_given_again(
    tmp_path: Path, named: int
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        runs = [_run(store, None)]
        runs += [_run(store, runs[0].id) for _ in range(2)]
        for number, run in enumerate(runs):
            ledger = StoreLedger(store, run.id)
            ledger.begin(_call(f"call {number}"))
            if number:
                # The first run was killed before it heard the reply.
                ledger.finish(f"call {number}", Outcome(reply=f"reply {number}"))
        replayed = calls_to_replay(store, runs[named].id)
    assert [c.reply.text for c in replayed if c.has_reply] == ["reply 1", "reply 2"]


def test_a_later_run_knows_where_the_replies_of_earlier_ones_are_kept(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        first = _run(store, None)
        ledger = StoreLedger(store, first.id)
        for number in range(3):
            ledger.begin(_call(f"call {number}"))
        ledger.keep_place("call 1", "batch_7 kw-1")
        second = StoreLedger(store, _run(store, first.id).id)
        assert [c.place for c in second.calls()] == ["", "batch_7 kw-1", ""]
        second.finish("call 1", Outcome(reply="late"))
        replayed = calls_to_replay(store, first.id)
    assert [c.reply.text for c in replayed if c.has_reply] == ["late"]


def test_a_later_run_knows_what_tool_calls_were_answered_with(tmp_path: Path) -> None:
    answer = ToolResult(call_id="a", text="d1: Correct.")
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        first = _run(store, None)
        ledger = StoreLedger(store, first.id)
        ledger.begin(_call("call 0"))
        ledger.finish("call 0", Outcome(reply="two calls"))
        ledger.keep_answer("call 0", 1, answer)
        (recorded,) = StoreLedger(store, _run(store, first.id).id).calls()
    assert recorded.answers == {1: answer}


def _talk(
    store: KernelStore,
    run: Campaign,
    *turns: str,
    task: str,
    opening: str = "r",
    models: tuple[str, ...] = (),
) -> None:
    """Hold a conversation of which each turn is a call."""
    ledger = StoreLedger(store, run.id)
    said: tuple[Turn, ...] = ()
    for number, text in enumerate(turns):
        call = _call(f"{run.id} {task} {text}", task)
        if models:
            call = call.model_copy(update={"model": models[number]})
        prompt = call.prompt.model_copy(update={"request": opening, "turns": said})
        ledger.begin(call.model_copy(update={"prompt": prompt}))
        ledger.finish(call.id, Outcome(reply=text))
        said = (*said, Turn(speaker="assistant", text=text), Turn(speaker="user", text="on"))


def test_a_campaign_without_a_candidate_shows_what_was_said_about_each_of_its_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "kernels.db")
    with KernelStore(url) as store:
        tasks = [_kept(store, (4, 8)), _kept(store, (4, 16))]
        _talk(store, _run(store, None), "before", task=tasks[0])
        run = _run(store, None)
        for task in tasks:
            _talk(store, run, "one", "two", task=task)
        _talk(store, _run(store, run.id), "one", "two", "three", task=tasks[1])
        names = [store.browse.task(task).shapes for task in tasks]
    app(["show", run.id[:8], "--conversation", "--store", url], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line[-len(name) :] for line, name in zip(_heads(lines, "# "), names, strict=True)] == (
        names
    )
    assert [line.split(" with")[0] for line in _heads(lines, "Conv")] == [
        "Conversation 2",
        "Conversation 1",
    ]
    assert "  before" not in lines
    assert "  three" in lines


def _kept(store: KernelStore, shape: tuple[int, int]) -> str:
    of = task_of(shape)
    return store.keep_task(of) or of.fingerprint


def _heads(lines: list[str], mark: str) -> list[str]:
    return [line for line in lines if line.startswith(mark)]


def test_where_no_model_was_asked_the_reason_is_told_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "kernels.db")
    with KernelStore(url) as store:
        run = _run(store, None)
        kept = store.add_trial(new_trial(run, task_of((4, 8)), program_of("x"))).candidate_id
        shown = {
            kept: f"no model held a conversation about .*, the task of {kept[:8]} by offline: ",
            run.id: f"no model held a conversation about a task of the campaign {run.id[:8]}: ",
        }
    for named, said in shown.items():
        assert app(["show", named[:8], "--conversation", "--store", url], standalone_mode=False)
        printed = " ".join(capsys.readouterr().out.lower().split())
        assert re.match(f"{said}search with --model", printed)
    with pytest.raises(InputError, match=rf"a campaign has: .* show {run.id[:8]} --conversation"):
        app(["show", run.id[:8], "--store", url], standalone_mode=False)
    with pytest.raises(InputError, match=r"no candidate or campaign .* begins with 'abcd'"):
        app(["show", "abcd", "--conversation", "--store", url], standalone_mode=False)


def test_a_conversation_names_everybody_who_answered(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        task = _kept(store, (4, 8))
        models = ("openai:a", "openai:a", "openai:b")
        _talk(store, _run(store, None), "one", "two", "three", task=task, models=models)
        (held,) = conversations_about(store, task)
    assert next(transcript_lines(held)).startswith("Conversation 1 with openai:a, then openai:b")


def test_a_conversation_that_a_later_run_goes_on_with_is_one(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        of = task_of((4, 8))
        task = store.keep_task(of) or of.fingerprint
        first = _run(store, None)
        _talk(store, first, "one", "two", task=task)
        _talk(store, _run(store, first.id), "one", "two", "three", task=task)
        # Whoever searches anew, or begins otherwise, holds another conversation.
        _talk(store, _run(store, first.id), "four", task=task, opening="other")
        _talk(store, _run(store, None), "one", task=task)
        held = conversations_about(store, task)
    assert [next(transcript_lines(talk)).split(" with")[0] for talk in held] == [
        "Conversation 1",
        "Conversation 2",
        "Conversation 3",
    ]
    said = [[t.text for t in talk.turns if t.speaker == "assistant"] for talk in held]
    assert said == [["one", "two", "three"], ["four"], ["one"]]


def _call(id_: str, task: str = "") -> Call:
    return Call(
        id=id_,
        request_hash="0" * 64,
        purpose=Purpose(role="coder" if task else "planner", task=task, conversation=bool(task)),
        model="anthropic:claude",
        prompt=Prompt(system="s", context="c", request="r", template="t"),
        shape="",
        worst=Cost(calls=1),
    )


def _run(store: KernelStore, root_id: str | None) -> Campaign:
    run = store.begin_campaign(
        name="night",
        spec="{}",
        environment=environment_of(INFO),
        continues=lambda _: False,
        root_id=root_id,
    )
    store.end_campaign(run.id, "interrupted", elapsed_s=1.0)
    return run


def test_a_campaigns_planning_and_repairs_are_shown_beside_its_conversations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "kernels.db")
    repair = Purpose(role="repairer", task="", parent="p")
    with KernelStore(url) as store:
        task, run = _kept(store, (4, 8)), _run(store, None)
        ledger = StoreLedger(store, run.id)
        answered = Outcome(reply='{"cause": "a slip", "program": {"kernels": []}}')
        ledger.begin(_call("plan"))
        ledger.finish("plan", Outcome(fault="busy: overloaded"))
        _talk(store, run, "one", task=task)
        purpose = repair.model_copy(update={"task": task})
        ledger.begin(_call("mend", task).model_copy(update={"purpose": purpose}))
        ledger.finish("mend", answered)
        _talk(store, run, "two", task=task, opening="again")
        held = conversations_in(store, run.id)
        about = conversations_about(store, task)
    assert [(talk.purpose.role, talk.number) for talk in held] == [
        ("planner", 0),
        ("coder", 1),
        ("repairer", 0),
        ("coder", 2),
    ]
    assert [talk.number for talk in about] == [1, 0, 2]
    app(["show", run.id[:8], "--conversation", "--store", url], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "# planning" in printed
    assert "The question ended: busy: overloaded." in printed
    assert "→ answer: a slip" in printed
