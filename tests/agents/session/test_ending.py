"""A conversation says why it is over, and every verdict says who leads."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat

import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.message import Purpose
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.providers.fault import OutageError
from kernelwright.agents.roles.coder import CoderOptions, ModelCoder
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.coder_prompt import standing
from kernelwright.agents.session import AsyncBridge, MemoryLedger, RecordedCall
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.agents.session.transcript import Ending, transcripts
from kernelwright.agents.session.transcript_text import transcript_lines
from kernelwright.errors import BudgetError
from kernelwright.evaluator import Status
from kernelwright.metal.kernel import Tunable
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.scene import (
    BODY,
    DEVICE,
    DONE,
    FIXED_TAIL,
    QUARTER,
    SUBMIT_FIRST,
    TASK,
    TYPO,
    attempt,
    checked,
    correct,
    draft,
)
from tests.agents.loopback.server import LoopbackServer, Misbehaviour, Response
from tests.agents.loopback.wire import Calls, Heard, Said

IDLE = Said("I do not know.")
WRONG_CALL = Said(calls=(Calls("compile", "{}"),))
LOOK = Said(calls=(Calls.of("show", what="graph", from_line=1),))
WRITTEN = Said(calls=(checked(draft(BODY)), SUBMIT_FIRST))


@pytest.fixture(params=["anthropic", "openai", "openai-responses"])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def held(
    wire: str, judge: Shared, *said: Response, tool_caps: ToolCaps | None = None, calls: int = 99
) -> tuple[list[Ending], str]:
    """The endings of a scripted conversation, and its transcript."""
    script: Iterator[Response] = chain(said[:-1], repeat(said[-1]))
    endings: list[Ending] = []
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, wire, caps=Caps(calls=calls))
        with AsyncBridge(partner.open()) as bridge, suppress(BudgetError):
            options = CoderOptions(tool_caps=tool_caps or ToolCaps())
            coder = ModelCoder(bridge, Bench(judge), options=options, on_end=endings.append)
            coder.write(TASK, DEVICE, (), count=1)
    (found,) = transcripts(partner.ledger.calls(), endings)
    return endings, "\n".join(transcript_lines(found))


ENDS: dict[str, tuple[tuple[Response, ...], str]] = {
    "idle": ((IDLE,), "3 turns in a row brought no tool call that can be carried out."),
    "wrong": ((WRONG_CALL,), "3 turns in a row brought no tool call that can be carried out."),
    "done": ((LOOK, DONE), "the model is done: nothing else promises a gain."),
    "turns": ((LOOK,), "the conversation's cap of 5 turns is reached."),
    "refused": ((LOOK, Said("No.", stop="refused")), "refused (No); try another model."),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_transcript_says_why_a_conversation_ended(wire: str, judge: Shared, name: str) -> None:
    said, reason = ENDS[name]
    endings, text = held(wire, judge, *said, tool_caps=ToolCaps(turns=5))
    assert [ending.is_final for ending in endings] == [True]
    last = text.splitlines()[-1]
    assert last.startswith("The conversation ended: ")
    assert last.endswith(reason)


def test_the_last_call_that_cannot_be_carried_out_is_answered_in_the_transcript(
    wire: str, judge: Shared
) -> None:
    _, text = held(wire, judge, WRONG_CALL)
    assert text.count("→ compile") == text.count("✗ there is no tool 'compile'") == 3


def test_a_cap_in_the_middle_is_told(judge: Shared) -> None:
    endings, text = held("openai", judge, LOOK, calls=2)
    assert [ending.is_final for ending in endings] == [False]
    assert re.search(r"^The conversation ended: the cap of 2 calls is reached", text, re.MULTILINE)


def test_an_ending_after_which_a_conversation_went_on_is_not_told(judge: Shared) -> None:
    stale = Ending(
        purpose=Purpose(role="coder", task=TASK.fingerprint, conversation=1),
        reason="the service was away",
        turns=0,
        is_final=False,
    )
    with LoopbackServer(lambda _: DONE) as server:
        partner = Partner(server, "openai")
        with AsyncBridge(partner.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    assert [t.ended for t in transcripts(partner.ledger.calls(), [stale])] == [""]


Tell = Callable[[ModelCoder, tuple[Attempt, ...]], object]
TELLS: dict[str, Tell] = {
    "in the middle": lambda coder, history: coder.write(TASK, DEVICE, history, count=1),
    "at the end": lambda coder, history: coder.conclude(TASK, history),
}


def verdict(judge: Shared, tell: Tell, *, own_us: float) -> tuple[str, str]:
    """What a model reads when its program was judged beside another of 40 us, and that one's id."""
    script = chain([WRITTEN], repeat(DONE))
    with LoopbackServer(lambda _: next(script)) as server:
        with AsyncBridge(Partner(server, "openai").open()) as bridge:
            coder = ModelCoder(bridge, Bench(judge))
            (proposal,) = coder.write(TASK, DEVICE, (), count=1)
            own = correct().evaluation.model_copy(update={"predicted_us": own_us})
            rival = attempt(draft(BODY.replace("2.0f", "2.00f")), Status.CORRECT, "correct")
            slow = rival.evaluation.model_copy(update={"predicted_us": 40.0})
            other = rival.model_copy(update={"evaluation": slow})
            tell(coder, (other, Attempt(proposal=proposal, evaluation=own)))
        told = server.requests[-1].text
    return told, TASK.candidate_id(other.proposal.program.id)[:8]


@pytest.mark.parametrize("when", TELLS)
def test_a_verdict_says_that_another_program_leads(judge: Shared, when: str) -> None:
    told, rival = verdict(judge, TELLS[when], own_us=60.0)
    assert "It is not the best program: it takes 1.50 times as long." in told
    assert f"The best program is `{rival}` by openai:gpt-5: predicted at 40 us" in told


@pytest.mark.parametrize("when", TELLS)
def test_a_verdict_says_that_the_program_leads(judge: Shared, when: str) -> None:
    told, rival = verdict(judge, TELLS[when], own_us=30.0)
    assert "It is the best program so far." in told
    assert rival not in told


def test_a_verdict_says_that_the_same_program_leads_with_other_tunables() -> None:
    own = correct()
    tunable = Tunable(name="GROUP", choices=(32, 64), value=64)
    program = own.proposal.program.model_copy(update={"tunables": (tunable,)})
    first, second = (
        Attempt(
            proposal=own.proposal.model_copy(update={"program": program.tuned({"GROUP": group})}),
            evaluation=own.evaluation.model_copy(update={"predicted_us": predicted_us}),
        )
        for group, predicted_us in ((64, 60.0), (32, 40.0))
    )
    assert standing(first, (first, second)) == "The best program is this one with GROUP = 32."


def test_what_a_conversation_cost_is_what_is_known_and_what_it_is_at_most(
    wire: str, judge: Shared
) -> None:
    _, plain = held(wire, judge, DONE)
    _, text = held(wire, judge, Misbehaviour("half"), DONE)
    calls = r"(\d calls?)(?: \(1 × dropped\))?"
    pattern = (
        rf"[^:]*:\S+: {calls}, (\$\d\.\d{{4}})(, at most \$\d\.\d{{4}} more)?; ([\d,]+) tokens read"
    )
    first, second = re.match(pattern, plain), re.match(pattern, text)
    assert first is not None
    assert second is not None
    assert (first[1], second[1]) == ("1 call", "2 calls")
    # The provider may have cached what the broken request held, and that is cheaper or dearer.
    assert float(second[2][1:]) < 0.02 < float(second[3].rpartition("$")[2].split()[0])
    assert (first[3], second[4]) == (None, first[4])
    assert "more in replies that never came whole" in text


def test_what_an_empty_reply_cost_is_known(wire: str, judge: Shared) -> None:
    _, text = held(wire, judge, Said("", output_tokens=700), DONE)
    assert re.match(r"[^:]*:\S+: 2 calls \(1 × empty reply\), \$\d\.\d{2,4}; [\d,]+ tokens", text)
    assert "at most" not in text
    assert "never came whole" not in text


CHECKED = Said(calls=(checked(draft(TYPO)), checked(draft(BODY))))
CUTS: dict[str, tuple[Response, Caps, ToolCaps]] = {
    "money": (LOOK, Caps(dollars=0.12), ToolCaps()),
    "tokens": (LOOK, Caps(tokens=95_000), ToolCaps()),
    "calls": (LOOK, Caps(calls=1), ToolCaps()),
    "turns": (LOOK, Caps(), ToolCaps(turns=2)),
    "idle": (IDLE, Caps(), ToolCaps()),
    "refused": (Said("No.", stop="refused"), Caps(), ToolCaps()),
    "away": (Misbehaviour("unavailable"), Caps(), ToolCaps()),
}


@contextmanager
def cut_off(
    judge: Shared, name: str, recorded: Sequence[RecordedCall] = ()
) -> Iterator[tuple[ModelCoder, Partner, list[Ending]]]:
    """A coder whose model checks a program and is kept from submitting it."""
    said, caps, tool_caps = CUTS[name]
    script: Iterator[Response] = chain([CHECKED], repeat(said))
    endings: list[Ending] = []
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, "openai", caps=caps, ledger=MemoryLedger(recorded))
        with AsyncBridge(partner.open()) as bridge:
            options = CoderOptions(tool_caps=tool_caps)
            coder = ModelCoder(bridge, Bench(judge), options=options, on_end=endings.append)
            yield coder, partner, endings


@pytest.mark.parametrize("name", CUTS)
def test_a_right_draft_is_proposed_where_its_model_cannot_submit_it(
    judge: Shared, name: str
) -> None:
    with cut_off(judge, name) as (coder, partner, endings):
        (proposal,) = coder.write(TASK, DEVICE, (), count=1)
        found = Attempt(proposal=proposal, evaluation=correct().evaluation)
        with suppress(BudgetError, OutageError):
            coder.write(TASK, DEVICE, (found,), count=1)
        assert not coder.left(TASK, (found,))
    assert proposal.program.id == draft(BODY).program(Interface(TASK)).id
    assert proposal.author == "openai:gpt-5"
    assert "d2, right and never submitted, is proposed" in endings[0].reason
    assert (coder.cap(TASK) != "") is (name in ("money", "tokens", "calls"))
    assert coder.cap(TASK) in endings[0].reason
    assert partner.ledger.calls()


def test_a_right_draft_that_is_slower_than_the_best_is_not_proposed(judge: Shared) -> None:
    fast = correct().evaluation.model_copy(update={"predicted_us": 0.001})
    other = attempt(draft(FIXED_TAIL, grid=QUARTER), Status.CORRECT, "correct")
    best = Attempt(proposal=other.proposal, evaluation=fast)
    with cut_off(judge, "turns") as (coder, _, _):
        assert not coder.write(TASK, DEVICE, (best,), count=1)


def test_a_model_that_is_done_is_taken_at_its_word(judge: Shared) -> None:
    script = iter([CHECKED, DONE])
    with (
        LoopbackServer(lambda _: next(script)) as server,
        AsyncBridge(Partner(server, "openai").open()) as bridge,
    ):
        assert not ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)


def test_a_right_draft_of_an_interrupted_search_is_proposed_by_the_next(judge: Shared) -> None:
    with cut_off(judge, "calls") as (coder, partner, _):
        coder.write(TASK, DEVICE, (), count=1)
        recorded = partner.ledger.calls()
    with cut_off(judge, "calls", recorded) as (coder, _, _):
        (proposal,) = coder.write(TASK, DEVICE, (), count=1)
    assert proposal.program.id == draft(BODY).program(Interface(TASK)).id


def test_what_is_checked_is_left_while_its_model_thinks(judge: Shared) -> None:
    asked, answer = threading.Event(), threading.Event()

    def script(request: Heard) -> Response:
        if not asked.is_set():
            asked.set()
            return CHECKED
        answer.wait(10)
        return DONE

    with LoopbackServer(script) as server, AsyncBridge(Partner(server, "openai").open()) as bridge:
        coder = ModelCoder(bridge, Bench(judge))
        writing = threading.Thread(target=coder.write, args=(TASK, DEVICE, ()), kwargs={"count": 1})
        writing.start()
        while len(server.requests) < 2:
            time.sleep(0.01)
        (proposal,) = coder.left(TASK, ())
        assert not coder.left(TASK, ())
        answer.set()
        writing.join()
    assert proposal.idea == "One element a thread."


REVISED = draft(FIXED_TAIL, grid=QUARTER)
ALL_AT_ONCE = Said(
    calls=(
        checked(draft(BODY)),
        SUBMIT_FIRST,
        Calls.of("done", because="what is left is launch time"),
        LOOK.calls[0],
    )
)
SUBMIT_LATE = Said(calls=(Calls.of("submit", program=REVISED.model_dump()), *DONE.calls))


def to_the_end(wire: str, judge: Shared, *said: Response, leaves: bool = False) -> tuple[str, int]:
    """A conversation's transcript after its first program was judged, and its requests."""
    script = iter(said)
    endings: list[Ending] = []
    with LoopbackServer(lambda _: next(script)) as server:
        partner = Partner(server, wire)
        with AsyncBridge(partner.open()) as bridge:
            coder = ModelCoder(bridge, Bench(judge), on_end=endings.append)
            (proposal,) = coder.write(TASK, DEVICE, (), count=1)
            history = (Attempt(proposal=proposal, evaluation=correct().evaluation),)
            if leaves:
                coder.leave(TASK, history, "the cap is reached")
            else:
                coder.conclude(TASK, history)
        (found,) = transcripts(partner.ledger.calls(), endings)
        return "\n".join(transcript_lines(found)), len(server.requests)


def test_done_beside_a_submission_ends_with_its_verdict_and_asks_no_more(
    wire: str, judge: Shared
) -> None:
    text, requests = to_the_end(wire, judge, ALL_AT_ONCE)
    assert requests == 1
    assert text.endswith("The conversation ended: the model is done: what is left is launch time.")
    answers = [line for line in text.splitlines() if line.startswith(("  ✓", "  ✗"))]
    assert len(answers) == len(ALL_AT_ONCE.calls)
    assert "It is the best program so far" in text


def test_calls_of_a_last_reply_are_answered(wire: str, judge: Shared) -> None:
    text, requests = to_the_end(wire, judge, WRITTEN, SUBMIT_LATE)
    assert requests == 2
    assert "✗ This was not carried out: the search of this task had ended" in text
    assert text.count("✓ Ended.") == 1


def test_a_verdict_that_a_model_is_not_asked_about_is_in_the_transcript(
    wire: str, judge: Shared
) -> None:
    text, requests = to_the_end(wire, judge, WRITTEN, leaves=True)
    assert requests == 1
    assert "It is the best program so far" in text
    assert text.endswith("The conversation ended: the cap is reached.")


def test_done_beside_a_refused_submission_is_not_carried_out(wire: str, judge: Shared) -> None:
    draft_and_program = Calls.of("submit", draft="d1", program=REVISED.model_dump())
    both = Said(calls=(checked(draft(BODY)), draft_and_program, *DONE.calls))
    text, requests = to_the_end(wire, judge, both, Said(calls=(SUBMIT_FIRST,)), DONE)
    assert requests == 3
    assert "✗ Not carried out: what was submitted beside it was refused." in text
    assert "It is the best program so far" in text


def test_one_base_url_reaches_either_api(
    wire: str, judge: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(lambda _: DONE) as server:
        monkeypatch.setattr(server, "base_url", lambda _: f"{server.root}/v1")
        with AsyncBridge(Partner(server, wire).open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        assert len(server.requests) == 1
