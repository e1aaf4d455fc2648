"""Conversations are shown whole, in lines that fit, with who answered instead of whom and why."""

import json

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.message import Purpose, ToolCall, Turn
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.session import AsyncBridge, ModelSpec
from kernelwright.agents.session.transcript import Transcript, transcripts
from kernelwright.agents.session.transcript_text import transcript_lines
from kernelwright.service.view.wrapping import wrapped
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import PURPOSE, Partner, Verse, prompt
from tests.agents.loopback.scene import DEVICE, DONE, TASK
from tests.agents.loopback.server import LoopbackServer, Response
from tests.agents.loopback.wire import Calls, Heard, Said

LOOK = Said(calls=(Calls.of("show", what="graph", from_line=1),))
NO = Said("I would rather not.", stop="refused")


def of(*turns: Turn) -> Transcript:
    with LoopbackServer(lambda _: DONE) as server:
        partner = Partner(server, "openai")
        with AsyncBridge(partner.open()) as bridge:
            bridge.turn(prompt("One."), PURPOSE.model_copy(update={"conversation": 1}))
    (found,) = transcripts(partner.ledger.calls())
    return found.model_copy(update={"turns": turns})


@pytest.mark.parametrize("full", [False, True])
def test_a_giant_text_is_cut_with_a_way_to_see_it_all(full: bool) -> None:
    giant = json.dumps({"program": {"idea": "x", "kernels": [{"source": "float a;\n" * 100_000}]}})
    calls = (ToolCall(id="1", name="check", arguments=giant),
             ToolCall(id="2", name="check", arguments='{"a' * 9000))  # fmt: skip
    turn = Turn(speaker="assistant", text="y" * 60_000, reasoning="z " * 60_000, calls=calls)
    lines = list(transcript_lines(of(turn), full=full))
    cuts = [line for line in lines if line.endswith("--full or --json shows all.")]
    assert len(cuts) == (0 if full else 4)
    assert sum(map(len, lines)) > 900_000 if full else sum(map(len, lines)) < 40_000


@pytest.mark.parametrize("program", ["[]", '{"kernels": "none"}', '{"kernels": [3]}', '"text"'])
def test_what_a_model_takes_for_a_program_is_shown_as_it_is(program: str) -> None:
    call = ToolCall(id="1", name="check", arguments=f'{{"program": {program}}}')
    assert any(
        program in line for line in transcript_lines(of(Turn(speaker="assistant", calls=(call,))))
    )


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize(
    "text",
    [
        "word " * 99,
        "x" * 999,
        "    " * 9 + "deep " * 60,
        "你好" * 99,
        "a\tb" * 50,
        "\x1b[31m" * 50,
        "",
    ],
)
def test_no_line_is_wider_than_the_terminal(text: str, width: int) -> None:
    from rich.cells import cell_len

    lines = wrapped(f"begin\n  {text}\nend", width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert (lines[0], lines[-1]) == ("begin", "end")


def test_a_handover_is_told_where_it_happened_with_its_reason(judge: Shared) -> None:
    opened = iter([LOOK, LOOK])
    told: list[tuple[Purpose, str, str]] = []

    def first(request: Heard) -> Response:
        return next(opened, NO)

    second = iter([LOOK])
    with (
        LoopbackServer(first) as tired,
        LoopbackServer(lambda _: next(second, DONE)) as fresh,
    ):
        spare = ModelSpec.parse("openai:local", fresh.base_url("openai"))
        talker = Partner(tired, "anthropic", fallbacks=[spare])
        with AsyncBridge(talker.open(), on_stand_in=lambda *what: told.append(what)) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    ((purpose, model, reason),) = told
    assert (purpose.conversation, model) == (1, "openai:local")
    assert reason == "anthropic:claude-sonnet-5 refused (I would rather not)"
    (held,) = transcripts(talker.ledger.calls())
    lines = list(transcript_lines(held))
    place = lines.index(f"openai:local answers from here on, because {reason}.")
    assert [line.split()[0] for line in lines if line.startswith(("model:", "kern", "openai"))] == [
        *("model:", "kernelwright:", "model:", "kernelwright:"),
        *("openai:local", "model:", "kernelwright:", "model:"),
    ]
    assert not any("rather not" in line for line in lines[place + 1 :])


def test_a_question_is_shown_with_who_answered_it_instead() -> None:
    verse = Said('{"line": "waves", "times": 3}')
    question = Purpose(role="planner", task="graph")
    with LoopbackServer(lambda _: NO) as tired, LoopbackServer(lambda _: verse) as fresh:
        spare = ModelSpec.parse("openai:local", fresh.base_url("openai"))
        talker = Partner(tired, "openai-responses", fallbacks=[spare])
        with AsyncBridge(talker.open()) as bridge:
            assert bridge.ask(prompt("One."), Verse, question).stands_in
    (held,) = transcripts(talker.ledger.calls())
    lines = list(transcript_lines(held))
    assert lines[0].startswith(
        "A question of the planner to openai-responses:gpt-5, then openai:local: 2 calls"
    )
    assert "openai:local answers from here on, because openai-responses:gpt-5 refused" in "\n".join(
        lines
    )
    assert '  → answer {"line": "waves", "times": 3}' in lines


@pytest.mark.parametrize(
    ("useless", "answer"),
    [
        (Said('{"line": "wav', stop="truncated"), "The reply was cut off"),
        (Said("A plan comes later."), "That reply cannot be used"),
    ],
)
def test_a_question_is_shown_with_replies_that_a_later_request_leaves_out(
    useless: Said, answer: str
) -> None:
    verse = Said('{"line": "waves", "times": 3}')
    question = Purpose(role="planner", task="graph")

    def script(request: Heard) -> Response:
        return useless if len(request.messages) == 1 else verse

    with LoopbackServer(script) as server:
        partner = Partner(server, "anthropic")
        with AsyncBridge(partner.open()) as bridge:
            bridge.ask(prompt("One."), Verse, question)
            again = prompt("One.").answered(verse.text, "Another one.")
            bridge.ask(again, Verse, question)
    (held,) = transcripts(partner.ledger.calls())
    said_by = [(turn.speaker, turn.text) for turn in held.turns]
    assert [speaker for speaker, _ in said_by] == ["assistant", "user"] * 2 + ["assistant"]
    assert said_by[1][1].startswith(answer)
    assert said_by[3][1] == "Another one."
    shown = "\n".join(transcript_lines(held))
    assert useless.text in shown
    assert answer in shown


def test_calls_without_a_reply_are_counted_by_cause() -> None:
    said = iter([Said("", style="text"), Said("", style="text"), DONE])
    with LoopbackServer(lambda _: next(said)) as server:
        partner = Partner(server, "openai")
        with AsyncBridge(partner.open()) as bridge:
            bridge.turn(prompt("One."), PURPOSE.model_copy(update={"conversation": 1}))
    (held,) = transcripts(partner.ledger.calls())
    assert "3 calls (2 × empty reply), $" in next(transcript_lines(held))


def test_empty_replies_count_with_what_a_task_took(judge: Shared) -> None:
    said = iter([Said("", output_tokens=500)] * 2 + [DONE])
    with LoopbackServer(lambda _: next(said)) as server:
        partner = Partner(server, "openai", caps=Caps(dollars=5.0))
        with AsyncBridge(partner.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
            spent = bridge.spent(TASK.fingerprint)
    calls = partner.ledger.calls()
    assert len(calls) == 3
    assert spent.dollars == pytest.approx(sum(call.cost.dollars for call in calls))


def test_a_call_that_is_carried_out_is_shown_as_it_was_read() -> None:
    call = ToolCall(id="c1", name="show", arguments='{"what": "mlx", "from_line": 1}} oops')
    lines = "\n".join(transcript_lines(of(Turn(speaker="assistant", calls=(call,)))))
    assert "unreadable" not in lines
    assert "mlx" in lines
    assert "oops" not in lines
