"""The whole loop against loopback servers: plan, write, judge on the simulator, repair, record."""

import io
import re
from functools import partial
from itertools import cycle

import pytest
from rich.console import Console

from kernelwright.agents.budget import Caps
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.session.transcript_text import transcript_lines
from kernelwright.campaign import Engine, SearchSpec, Subject, capture_subjects, offline_team
from kernelwright.campaign.event import Event, ModelRemarked
from kernelwright.campaign.execution.judge import judge_on
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.ledger import conversations_about
from kernelwright.campaign.history.run_state import reason_of
from kernelwright.campaign.report.report_query import report_of
from kernelwright.campaign.team.model_team import open_team
from kernelwright.errors import InputError, ModelError
from kernelwright.evaluator import Status
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.shape import hidden_graphs
from kernelwright.service.view.progress import PlainLines
from kernelwright.store import KernelStore
from tests.agents.loopback.example import (
    causal_conv_inputs,
    causal_conv_silu,
    convolution_model,
)
from tests.agents.loopback.loop import SUBJECT, Shared, calls_of, search, statuses
from tests.agents.loopback.model import SCENARIOS, ScriptedModel, role_of, whole
from tests.agents.loopback.partner import NAMES, QUICK
from tests.agents.loopback.scene import BODY, DONE, TASK, TYPO, draft, submitted
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Refused, Response, Script
from tests.agents.loopback.wire import Calls, Heard, Said

LOOK = Said(calls=(Calls.of("show", what="graph", from_line=1),))

ENDINGS = {
    "right at once": [("One element a thread.", Status.CORRECT)],
    "compile error, then fixed": [("A slip.", Status.CORRECT)],
    "wrong at the tail, then fixed": [
        ("Four a thread.", Status.WRONG),
        ("Four a thread.", Status.CORRECT),
    ],
    "race, then fixed": [("Through a tile.", Status.UNSAFE), ("Through a tile.", Status.CORRECT)],
    "plausible cheat": [],
    "garbage": [],
    "refusal": [],
    "truncated": [("One element a thread.", Status.CORRECT)],
    "calls as text": [("One element a thread.", Status.CORRECT)],
    "loops": [],
    "giant program": [("One element a thread.", Status.CORRECT)],
    "wrong JSON": [("One element a thread.", Status.CORRECT)],
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.sampled(10)
def test_conversations_end_as_they_should(
    store: KernelStore, judge: Shared, provider: str, scenario: str
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(SCENARIOS[scenario]()) as server:
        report = search(store, judge, name, server.base_url(provider))
    assert statuses(store, name) == ENDINGS[scenario]
    assert report.tasks[0].champion_id is not None


BAD_WEATHER: tuple[Response | None, ...] = (
    *(Misbehaviour("busy"), Misbehaviour("half"), Misbehaviour("overloaded"), None),
    *(Misbehaviour("reset"), Said("not yet", style="text"), Misbehaviour("garbled_stream"), None),
    *(Misbehaviour("unavailable"), Misbehaviour("reset_before"), None),
)
"""None lets a request through."""


def test_a_bad_network_loses_no_candidate(store: KernelStore, judge: Shared, provider: str) -> None:
    model, faults = SCENARIOS["race, then fixed"](), cycle(BAD_WEATHER)

    def stormy(request: Heard) -> Response:
        return next(faults) or model(request)

    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(stormy) as server:
        search(store, judge, name, server.base_url(provider))
    assert statuses(store, name) == ENDINGS["race, then fixed"]


def test_a_replay_gives_the_same_candidates_without_a_key(
    store: KernelStore, judge: Shared, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(SCENARIOS["race, then fixed"]()) as server:
        first = search(store, judge, name, server.base_url(provider))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    again = search(store, judge, f"replay:{first.campaign_id[:8]}", caps=Caps(dollars=0))
    by_campaign = {
        report.campaign_id: [
            (e.candidate_id, e.author, e.status)
            for e in reversed(store.history(campaign=report.campaign_id))
        ]
        for report in (first, again)
    }
    assert by_campaign[first.campaign_id] == by_campaign[again.campaign_id]
    assert again.evaluated == 0
    outcomes = [c.outcome for c in store.dialogue.calls(again.campaign_id)]
    assert outcomes
    assert sum(o.cost_microdollars for o in outcomes if o is not None) == 0


def test_an_unknown_campaign_cannot_be_replayed(store: KernelStore, judge: Shared) -> None:
    silent = search(store, judge, "none")
    with pytest.raises(InputError, match="beginning of one campaign's id after replay:") as refused:
        search(store, judge, "replay:0badc0de")
    assert silent.campaign_id[:8] not in str(refused.value)


def test_at_a_cap_the_search_ends_in_order_and_says_what_was_next(
    store: KernelStore, judge: Shared, provider: str
) -> None:
    model = SCENARIOS["race, then fixed"]()
    with LoopbackServer(model) as server:
        report = search(
            store, judge, f"{provider}:{NAMES[provider]}", server.base_url(provider), Caps(calls=2)
        )
    assert model.asked == ["planner", "coder"]
    assert report.tasks[0].champion_id is not None
    assert "cap of 2 calls" in report.tasks[0].reason
    assert "next would have been: improve" in report.tasks[0].reason
    assert len(calls_of(store)) == 2


def test_a_task_at_its_own_cap_goes_on_with_what_costs_nothing(
    store: KernelStore, judge: Shared
) -> None:
    model = SCENARIOS["race, then fixed"]()
    caps = Caps(calls=9)
    with LoopbackServer(model) as server:
        url = server.base_url("openai")
        report = search(store, judge, "openai:gpt-5", url, caps, task_caps=Caps(calls=2))
    assert len(calls_of(store)) == 2
    assert "the task's cap of 2 calls is reached" in report.tasks[0].reason
    assert report.tasks[0].champion_id is not None


SPEECHLESS: dict[str, tuple[Response, str]] = {
    "refuses": (Said("I would rather not.", stop="refused"), r"refused \(I would rather not\);"),
    "babbles": (Said("Kernels are hard.", style="text"), "gave no usable reply, asked twice"),
    "overflows": (Refused(400, "prompt is too long: 9 tokens > 8"), "the prompt does not fit"),
    "is away": (Misbehaviour("overloaded"), "stayed busy through every retry"),
}


@pytest.mark.parametrize("how", SPEECHLESS)
@pytest.mark.sampled(4)
def test_a_model_that_brings_nothing_is_spoken_of_once_and_the_search_goes_on(
    store: KernelStore, judge: Shared, provider: str, how: str
) -> None:
    response, words = SPEECHLESS[how]
    said = io.StringIO()
    view = PlainLines(Console(file=said, width=200))
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(lambda _: response) as server:
        report = search(
            store, judge, name, server.base_url(provider), candidates=3, listen=view.show
        )
    assert report.tasks[0].champion_id is not None
    lines = said.getvalue().splitlines()
    about = [line for line in lines if name in line and ": conversation " not in line]
    assert len(about) == 1
    assert re.search(words, about[0])
    ended = [line for line in lines if ": conversation " in line]
    held = conversations_about(store, TASK.fingerprint)
    assert len(ended) == len(held) >= 1
    logged = [e for e in store.events(report.campaign_id) if e.kind == ModelRemarked.__name__]
    assert len(logged) == len(about) + len(ended)


ENDS: dict[str, tuple[Response, Caps, str]] = {
    "idle": (
        Said("I do not know."),
        Caps(),
        "3 turns in a row brought no tool call that can be carried out",
    ),
    "done": (DONE, Caps(), "the model is done: nothing else promises a gain"),
    "cap": (LOOK, Caps(calls=3), "the cap of 3 calls is reached"),
    "refusal": (Said("No.", stop="refused"), Caps(), "openai:gpt-5 refused (No)"),
    "outage": (Misbehaviour("overloaded"), Caps(), "openai:gpt-5 stayed busy"),
    "verdict": (submitted(draft(BODY)), Caps(), "its last verdict was told"),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_end_of_every_conversation_is_a_line_of_the_output_and_of_the_transcript(
    store: KernelStore, judge: Shared, how: str
) -> None:
    response, caps, words = ENDS[how]

    def script(request: Heard) -> Response:
        return whole(request) if role_of(request) == "planner" else response

    told: list[Event] = []
    with LoopbackServer(script) as server:
        url = server.base_url("openai")
        search(store, judge, "openai:gpt-5", url, caps, candidates=2, listen=told.append)
    lines = [e.sentence for e in told if isinstance(e, ModelRemarked)]
    ends = [line for line in lines if ": conversation " in line]
    held = conversations_about(store, TASK.fingerprint)
    assert ends[0].startswith("double_plus_one: conversation 1 with openai:gpt-5 ended: " + words)
    assert ends == [
        f"double_plus_one: conversation {t.number} with {t.model} ended: {t.ended.rstrip('.')}."
        for t in held
    ]
    last = list(transcript_lines(held[0]))[-1]
    assert last == f"The conversation ended: {held[0].ended.rstrip('.')}."


def test_conversations_of_a_later_search_are_counted_on(store: KernelStore, judge: Shared) -> None:
    def script(request: Heard) -> Response:
        return whole(request) if role_of(request) == "planner" else DONE

    told: list[Event] = []
    with LoopbackServer(script) as server:
        for _ in range(2):
            url = server.base_url("openai")
            search(store, judge, "openai:gpt-5", url, candidates=1, listen=told.append)
    lines = [e.sentence for e in told if isinstance(e, ModelRemarked)]
    numbers = [int(number) for line in lines for number in re.findall(r"conversation (\d+)", line)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 2


def test_a_bad_key_ends_the_search_in_a_sentence(
    store: KernelStore, judge: Shared, provider: str
) -> None:
    with (
        LoopbackServer(lambda _: Refused(401, "invalid key")) as server,
        pytest.raises(ModelError, match="refuses the key"),
    ):
        search(store, judge, f"{provider}:{NAMES[provider]}", server.base_url(provider))
    (run,) = store.campaigns()
    assert run.state == "failed"
    assert "refuses the key (invalid key)" in reason_of(store, run)


def with_secret(store: KernelStore, subject: Subject, model: Script, secret: str) -> None:
    """Search as `search` does, with a judge of its own whose secret is known."""
    config = EvaluatorConfig(secret=secret)
    with LoopbackServer(model) as server:
        spec = SearchSpec(
            models=("openai:gpt-5",),
            base_url=server.base_url("openai"),
            candidates_per_task=4,
            batch=1,
            jobs=1,
        )
        with open_team(store, spec, QUICK) as team_factory:
            make_judge = partial(judge_on, "simulator", config)
            Engine(
                store, spec, offline_team(), make_judge, RunSettings(team_factory=team_factory)
            ).run(capture_subjects([subject]))


def test_a_models_program_becomes_the_champion_where_no_template_fits(store: KernelStore) -> None:
    subject = Subject("causal_conv_silu", causal_conv_silu, causal_conv_inputs(), {}, "mixer.py")
    model = convolution_model()
    with_secret(store, subject, model, "5ecre7")
    champion = store.best()[0]
    assert champion.author == "openai:gpt-5"
    assert model.asked[:5] == ["planner", "coder", "coder", "coder", "coder"]


def test_no_prompt_of_a_search_holds_a_closed_check(store: KernelStore) -> None:
    generic = draft(BODY, any_size=["n0", "n1"])
    model, heard = ScriptedModel(submitted(generic)), list[str]()

    def listening(request: Heard) -> Response:
        heard.append(request.text)
        return model(request)

    config = EvaluatorConfig(secret="5ecre7-0f-7h15-534rch")
    with_secret(store, SUBJECT, listening, config.secret)
    program = generic.program(Interface(TASK))
    closed = hidden_graphs(TASK, program, config)
    assert closed
    shapes = {str(type_) for graph in closed for type_ in graph.input_types}
    secrets = {config.secret, config.commitment, *shapes}
    assert program.id in {store.show(e.candidate_id).program.id for e in store.history()}
    assert len(heard) == len(model.asked) >= 3
    assert not [secret for secret in secrets for text in heard if secret in text]


PAID: dict[str, tuple[tuple[Said, ...], str]] = {
    "the last verdict is told": ((submitted(draft(BODY)),), ""),
    "a refusal": ((LOOK, Said("No.", stop="refused")), ""),
    "a correction that is none": (
        (submitted(draft(TYPO)), submitted(draft(f"{TYPO} "))),
        "I cannot.",
    ),
}


@pytest.mark.parametrize("how", PAID)
def test_what_models_charged_for_a_task_stands_in_its_steps_to_the_cent(
    store: KernelStore, judge: Shared, provider: str, how: str
) -> None:
    said, repairs = PAID[how]
    name = f"{provider}:{NAMES[provider]}"
    model = ScriptedModel(*said, repairs=repairs)
    with LoopbackServer(model) as server:
        search(store, judge, name, server.base_url(provider), candidates=4 if repairs else 2)
    (campaign,) = store.campaigns()
    report = report_of(store, campaign)
    paid = sum(spent.dollars for spent in report.spending if spent.shapes)
    assert sum(step.here.paid for step in report.steps) == pytest.approx(paid, abs=1e-5)
    talks = conversations_about(store, TASK.fingerprint)
    assert any(talk.purpose.role == "repairer" for talk in talks) is bool(repairs)
    assert sum(talk.cost.dollars for talk in talks) == pytest.approx(paid, abs=1e-5)


def test_what_a_model_learnt_is_told_to_the_next_search_of_such_tasks(
    store: KernelStore, judge: Shared, provider: str
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    learnt = Said(calls=(Calls.of("done", because="One load an element is enough here."),))
    first = ScriptedModel(submitted(draft(BODY)), *[learnt] * 9)
    with LoopbackServer(first) as server:
        search(store, judge, name, server.base_url(provider), candidates=2)
    (note,) = store.dialogue.lessons()
    assert note.text == "One load an element is enough here."
    assert note.evidence == (draft(BODY).program(Interface(TASK)).id,)
    heard: list[str] = []

    def listening(request: Heard) -> Response:
        heard.append(request.text)
        return whole(request) if "You cut a graph" in request.system else DONE

    with LoopbackServer(listening) as server:
        search(store, judge, name, server.base_url(provider), candidates=4)
    assert any("One load an element is enough here. (a model's note on 1 verdict)" in t
               for t in heard)  # fmt: skip
