"""Whole conversations with tools over three wire formats, programs judged on the simulator."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat

import mlx.core as mx
import pytest

from kernelwright.agents.budget import Caps
from kernelwright.agents.message import ToolCall
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.coder import CoderOptions, ModelCoder
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.coder_prompt import Start
from kernelwright.agents.session import (
    AsyncBridge,
    MemoryLedger,
    ModelSpec,
    load_prices,
    open_model,
)
from kernelwright.agents.session.spec import price_of
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.agents.session.tools.toolbox import Toolbox
from kernelwright.agents.session.transcript import transcripts
from kernelwright.agents.session.transcript_text import transcript_lines
from kernelwright.errors import BudgetError, DeviceError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.kernel import Program
from tests.agents.loopback.bench import Bench
from tests.agents.loopback.loop import Shared
from tests.agents.loopback.partner import NAMES, QUICK, Partner
from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    DEVICE,
    DONE,
    FIXED_TAIL,
    QUARTER,
    RACE,
    SUBMIT_FIRST,
    TASK,
    TYPO,
    checked,
    draft,
)
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Calls, Heard, Said


@pytest.fixture(params=["anthropic", "openai", "openai-responses"])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Broken(Bench):
    """A device that does not answer."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        raise DeviceError("the driver does not answer.")


@contextmanager
def partner(wire: str, script: Iterator[Response], caps: Caps | None = None) -> Iterator[Partner]:
    with LoopbackServer(lambda _: next(script)) as server:
        talker = Partner(server, wire, caps=caps or Caps())
        yield talker


def turns(*said: Response) -> Iterator[Response]:
    return chain(said, repeat(DONE))


def replace(name: str, search: str, text: str) -> Calls:
    edit = {"kernel": "affine", "part": "source", "search": search, "replace": text}
    return Calls.of("edit", draft=name, edits=[edit])


ENGINEER = (
    Said("I begin plainly.", calls=(checked(draft(TYPO)),), thinking="One element a thread."),
    Said(calls=(replace("d1", "2.0g", "2.0f"),), thinking="The suffix is wrong."),
    Said(calls=(Calls.of("measure", draft="d2", tunables=[]),), thinking="What bounds it?"),
    Said(
        calls=(
            Calls.of("show", what="mlx", from_line=0),
            checked(draft(FIXED_TAIL, "Four a thread.", grid=QUARTER)),
        )
    ),
    Said(
        "Four a thread moves the same bytes.",
        calls=(Calls.of("submit", draft="d2", program=None),),
    ),
)


def attempt_of(proposal: Proposal, bench: Bench) -> Attempt:
    return Attempt(proposal=proposal, evaluation=bench.evaluate(TASK, proposal.program))


def test_a_competent_engineer_gets_from_a_slip_to_a_verdict(wire: str, judge: Shared) -> None:
    bench = Bench(judge)
    with (
        partner(wire, turns(*ENGINEER)) as talker,
        AsyncBridge(talker.open()) as bridge,
    ):
        coder = ModelCoder(bridge, bench)
        (proposal,) = coder.write(TASK, DEVICE, (), count=2)
        assert bench.count == 3
        assert not coder.write(TASK, DEVICE, (attempt_of(proposal, bench),), count=2)
        requests = talker.server.requests
    assert proposal.program.id == draft(BODY).program(Interface(TASK)).id
    assert len(requests) == 6
    told = ["\n".join(text for _, text in request.messages) for request in requests]
    assert "invalid suffix" in told[1]
    assert "d2: Correct in" in told[2]
    assert "how long each resource alone would take" in told[3].lower()
    assert "Plain MLX launches" in told[4]
    assert "Correct in" in told[5]
    assert all(request.thinks for request in requests) or wire == "openai"
    assert not any(request.forced_tool for request in requests)
    (held,) = transcripts(talker.ledger.calls())
    text = "\n".join(transcript_lines(held))
    assert "(thinks) The suffix is wrong." in text
    assert "→ edit" in text
    assert "because" in text


def test_thinking_goes_back_unchanged_and_reaches_no_verdict(judge: Shared) -> None:
    with (
        partner("anthropic", turns(*ENGINEER)) as talker,
        AsyncBridge(talker.open()) as bridge,
    ):
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        second = json.loads(talker.server.requests[1].body)
    said = second["messages"][1]["content"]
    assert [block["type"] for block in said] == ["thinking", "text", "tool_use"]
    assert said[0] == {
        "type": "thinking",
        "thinking": "One element a thread.",
        "signature": "5igned",
    }
    assert second["thinking"]["type"] == "adaptive"
    assert second["tool_choice"] == {"type": "auto"}


def test_encrypted_reasoning_goes_back_unchanged(judge: Shared) -> None:
    with (
        partner("openai-responses", turns(*ENGINEER)) as talker,
        AsyncBridge(talker.open()) as bridge,
    ):
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        second = json.loads(talker.server.requests[1].body)
    kinds = [item.get("type") for item in second["input"]]
    assert kinds == [None, "reasoning", "message", "function_call", "function_call_output"]
    assert second["input"][1]["encrypted_content"] == "5ealed"
    assert second["store"] is False
    assert len(second["prompt_cache_key"]) == 32


def test_a_named_effort_is_asked_for(wire: str, judge: Shared) -> None:
    with LoopbackServer(lambda _: DONE) as server:
        name = f"{wire}:{NAMES[wire]}@high"
        spec = ModelSpec.parse(name, server.base_url(wire))
        assert (spec.name, spec.effort) == (NAMES[wire], "high")
        model = open_model(
            [spec],
            ledger=MemoryLedger(),
            budget=Partner(server, "openai").budget,
            recorded=lambda _: (),
            settings=QUICK,
        )
        assert model is not None
        with AsyncBridge(model) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        assert server.requests[0].effort == "high"


POOR = (
    Said(calls=(Calls("check", '{"program": {"idea": '),)),
    Said(calls=(Calls("compile", "{}"), Calls("edit", "[]"))),
    Said("Perhaps I should think about it."),
)


def test_a_poor_engineer_is_answered_in_words_and_ends_in_order(wire: str, judge: Shared) -> None:
    with partner(wire, turns(*POOR)) as talker, AsyncBridge(talker.open()) as bridge:
        assert not ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        requests = talker.server.requests
    assert len(requests) == 3
    assert "the arguments of check cannot be used" in requests[1].messages[-1][1]
    assert "there is no tool 'compile'" in "".join(text for _, text in requests[2].messages)


def test_wrong_kernels_are_not_submitted(wire: str, judge: Shared) -> None:
    both = Said(calls=(checked(draft(CHEAT)), SUBMIT_FIRST))
    with partner(wire, turns(both)) as talker, AsyncBridge(talker.open()) as bridge:
        assert not ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        told = talker.server.requests[1].text
    assert "d1 is wrong: mend it before it is submitted" in told


@pytest.mark.parametrize("caps", [ToolCaps(turns=6), ToolCaps(calls=4)])
def test_an_endless_loop_ends(wire: str, judge: Shared, caps: ToolCaps) -> None:
    look = Said(calls=(Calls.of("show", what="graph", from_line=0),))
    with partner(wire, repeat(look)) as talker, AsyncBridge(talker.open()) as bridge:
        coder = ModelCoder(bridge, Bench(judge), options=CoderOptions(tool_caps=caps))
        assert not coder.write(TASK, DEVICE, (), count=1)
        assert len(talker.server.requests) <= 7


@pytest.mark.parametrize("ids", [("same", "same", "same"), ("", "", "call_1")])
def test_calls_that_share_an_id_are_answered_each_by_its_own(
    wire: str, judge: Shared, ids: tuple[str, ...]
) -> None:
    looks = tuple(
        Calls("show", json.dumps({"what": what, "from_line": 0}), id=id_)
        for what, id_ in zip(("graph", "mlx", "nothing"), ids, strict=True)
    )
    with partner(wire, turns(Said(calls=looks))) as talker, AsyncBridge(talker.open()) as bridge:
        assert not ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        body = talker.server.requests[1].body
    pattern = r'"(?:id|call_id|tool_use_id|tool_call_id)": "([^"]*)"'
    told = Counter(id_ for id_ in re.findall(pattern, body) if not id_.startswith(("fc_", "msg_")))
    assert len(told) == 3
    # Every id stands as often as every other: in its call, and in the answer to it.
    assert len(set(told.values())) == 1
    assert told.most_common(1)[0][1] >= 2
    assert "" not in told


def test_a_call_that_is_cut_off_is_answered_and_written_again(wire: str, judge: Shared) -> None:
    whole = checked(draft(BODY))
    cut = Calls(whole.name, whole.arguments[: whole.arguments.rindex('"grid"')])
    script = turns(Said(calls=(cut,), stop="truncated"), Said(calls=(whole, SUBMIT_FIRST)))
    with partner(wire, script) as talker, AsyncBridge(talker.open()) as bridge:
        (proposal,) = ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        told = talker.server.requests[1].messages[-1][1]
    assert "cut off at its limit" in talker.server.requests[1].text
    assert told
    assert proposal.program.id == draft(BODY).program(Interface(TASK)).id


@pytest.mark.parametrize("task_caps", [Caps(calls=2), Caps(dollars=0.045), Caps(tokens=40_000)])
def test_a_tasks_caps_hold_in_the_middle_of_its_conversation(
    wire: str, judge: Shared, task_caps: Caps
) -> None:
    small = QUICK.limits.model_copy(update={"output_tokens": 200})
    script = turns(*ENGINEER)
    with LoopbackServer(lambda _: next(script)) as server:
        talker = Partner(
            server, wire, settings=QUICK.model_copy(update={"limits": small}), task_caps=task_caps
        )
        with AsyncBridge(talker.open()) as bridge, suppress(BudgetError):
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    spent = talker.budget.spent(TASK.fingerprint)
    assert spent.calls == len(server.requests) <= 5
    assert not task_caps.are_exceeded_by(spent)
    assert spent.tokens == sum(b.input_tokens + b.output_tokens for b in server.bills)


def test_evaluations_are_capped_and_the_model_is_told(wire: str, judge: Shared) -> None:
    said = turns(Said(calls=(checked(draft(TYPO)),)), Said(calls=(checked(draft(RACE)),)))
    bench = Bench(judge)
    with partner(wire, said) as talker, AsyncBridge(talker.open()) as bridge:
        options = CoderOptions(tool_caps=ToolCaps(evaluations=1))
        coder = ModelCoder(bridge, bench, options=options)
        assert not coder.write(TASK, DEVICE, (), count=1)
        assert "the conversation's cap of" in talker.server.requests[2].text
    assert bench.count == 1


def test_a_device_that_fails_is_told_and_costs_no_conversation(wire: str, judge: Shared) -> None:
    with (
        partner(wire, turns(Said(calls=(checked(draft(BODY)),)))) as talker,
        AsyncBridge(talker.open()) as bridge,
    ):
        assert not ModelCoder(bridge, Broken(judge)).write(TASK, DEVICE, (), count=1)
        assert "the driver does not answer" in talker.server.requests[1].text


def test_five_turns_read_most_of_their_input_from_the_cache(wire: str, judge: Shared) -> None:
    with partner(wire, turns(*ENGINEER)) as talker, AsyncBridge(talker.open()) as bridge:
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    (held,) = transcripts(talker.ledger.calls())
    assert held.cost.calls == 5
    assert held.cached_share > 0.7


def test_a_wait_that_a_cache_of_minutes_does_not_survive_is_followed_by_one_of_an_hour(
    judge: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.agents.session.session.COLD_CACHE_S", 0.0)
    with partner("anthropic", turns(*ENGINEER)) as talk, AsyncBridge(talk.open()) as bridge:
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    bodies = [request.body for request in talk.server.requests]
    assert ['"ttl": "1h"' in body for body in bodies] == [False] + [True] * (len(bodies) - 1)


def test_what_is_spent_is_what_is_billed_to_the_cent(wire: str, judge: Shared) -> None:
    with (
        partner(wire, turns(*ENGINEER), Caps(dollars=5.0)) as talker,
        AsyncBridge(talker.open()) as bridge,
    ):
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        spent, bills = talker.budget.spent(), talker.server.bills
    assert spent.tokens == sum(b.input_tokens + b.output_tokens for b in bills)
    assert sum(b.thinking_tokens for b in bills) > 0
    # Computed from what the server billed and the price table alone; thinking is output.
    price = price_of(ModelSpec.parse(f"{wire}:{NAMES[wire]}"), load_prices())
    assert price is not None
    read = price.input if price.cache_read is None else price.cache_read
    billed = sum(
        (b.input_tokens - b.cached_tokens) * price.input
        + b.cached_tokens * read
        + b.output_tokens * price.output
        for b in bills
    )
    assert spent.dollars == pytest.approx(billed / 1e6, abs=1e-9)


@pytest.mark.parametrize("dollars", [0.02, 0.03, 0.045, 0.06])
def test_a_cap_in_dollars_is_never_passed_by_what_is_billed(
    wire: str, judge: Shared, dollars: float
) -> None:
    # Small replies leave room for several turns under a small cap.
    small = QUICK.limits.model_copy(update={"output_tokens": 200})
    settings = QUICK.model_copy(update={"limits": small})
    script = turns(*ENGINEER)
    with LoopbackServer(lambda _: next(script)) as server:
        talker = Partner(server, wire, caps=Caps(dollars=dollars), settings=settings)
        with AsyncBridge(talker.open()) as bridge, suppress(BudgetError):
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        tokens = sum(b.input_tokens + b.output_tokens for b in server.bills)
    assert talker.budget.spent().dollars <= dollars
    assert talker.budget.spent().tokens == tokens


def test_a_cap_holds_in_the_middle_of_a_conversation(wire: str, judge: Shared) -> None:
    cap = Caps(calls=2)
    with partner(wire, turns(*ENGINEER), cap) as talker, AsyncBridge(talker.open()) as bridge:
        coder = ModelCoder(bridge, Bench(judge))
        # What is right by then is proposed.
        assert len(coder.write(TASK, DEVICE, (), count=1)) == 1
        with pytest.raises(BudgetError, match="cap of 2 calls"):
            coder.write(TASK, DEVICE, (), count=1)
        assert len(talker.server.requests) == 2


class Forbidden(Bench):
    """A workbench that a replay must not need."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        raise AssertionError("a replay evaluates nothing")


def test_a_transcript_is_replayed_bit_for_bit(
    wire: str, judge: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(judge)
    with partner(wire, turns(*ENGINEER)) as talker, AsyncBridge(talker.open()) as bridge:
        coder = ModelCoder(bridge, bench)
        (proposal,) = coder.write(TASK, DEVICE, (), count=1)
        judged = attempt_of(proposal, bench)
        coder.write(TASK, DEVICE, (judged,), count=1)
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable)
    again = MemoryLedger()
    model = open_model(
        [ModelSpec.parse("replay:first")],
        ledger=again,
        budget=talker.budget,
        recorded=lambda _: talker.ledger.calls(),
        settings=QUICK,
    )
    assert model is not None
    slower = judged.evaluation.model_copy(update={"predicted_us": 77.0})
    with AsyncBridge(model) as bridge:
        coder = ModelCoder(bridge, Forbidden(judge))
        (same,) = coder.write(TASK, DEVICE, (), count=1)
        assert same.program == proposal.program
        coder.write(TASK, DEVICE, (judged.model_copy(update={"evaluation": slower}),), count=1)
    first, second = transcripts(talker.ledger.calls()), transcripts(again.calls())
    assert [t.turns for t in first] == [t.turns for t in second]
    hashes = [[c.call.request_hash for c in ledger.calls()] for ledger in (talker.ledger, again)]
    assert hashes[0] == hashes[1]


def many(x: mx.array) -> mx.array:
    for step in range(150):
        x = mx.where(x > step, x * 1.01 + step, x - 0.5)
    return x


def test_no_opening_is_larger_than_40_kilobytes(judge: Shared) -> None:
    graph = canonicalize(capture(many, mx.zeros((8, 64))))
    task = Task(graph, "many")
    long = draft("\n".join([BODY, *(f"out[i] += {n}.0f;" for n in range(6000))]))
    history = [attempt_of(Proposal(program=long.program(Interface(TASK)), author="offline",
                                   idea="Unrolled. " * 300), Instant(judge))] * 12  # fmt: skip
    with partner("anthropic", turns()) as talker, AsyncBridge(talker.open()) as bridge:
        ModelCoder(bridge, Bench(judge)).write(task, DEVICE, (), count=1)
        ModelCoder(bridge, Bench(judge)).write(
            TASK, DEVICE, history, count=1, start=Start(history[0])
        )
        sizes = [call.call.prompt.opening_bytes for call in talker.ledger.calls()]
    assert len(sizes) == 2
    assert max(sizes) <= 40_000


class Instant(Bench):
    """Finds everything right and slow."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        right = self._judge.evaluate(TASK, draft(BODY).program(Interface(TASK)))
        return right.model_copy(update={"program": program.id, "predicted_us": 900.0})


def test_reference_values_come_from_stated_inputs(judge: Shared) -> None:
    box = Toolbox(task=TASK, workbench=Bench(judge), caps=ToolCaps())
    asked = Calls.of(
        "reference",
        draw=1,
        inputs=[{"fill": "constant", "value": "3"}],
        output=0,
        start=0,
        count=2,
    )
    ran = box.run(ToolCall(id="1", name=asked.name, arguments=asked.arguments))
    assert "out should be: 7, 7" in ran.result.text


def test_a_fallback_goes_on_with_the_conversation_in_its_own_format(judge: Shared) -> None:
    opened = iter(ENGINEER[:1])

    def first(request: Heard) -> Response:
        return next(opened, Said("I would rather not.", stop="refused"))

    with (
        LoopbackServer(first) as tired,
        LoopbackServer(lambda _: DONE) as fresh,
    ):
        spare = ModelSpec.parse("openai:local", fresh.base_url("openai"))
        talker = Partner(tired, "anthropic", fallbacks=[spare])
        with AsyncBridge(talker.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
    messages = json.loads(fresh.requests[0].body)["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool"]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "check"


def without_tools(*written: Calls) -> Callable[[Heard], Response]:
    """A server that refuses tools, with a model that writes its calls as text."""
    texts = [json.dumps({"tool": c.name, "arguments": json.loads(c.arguments)}) for c in written]
    queue = [Said(f"Well.\n```json\n{text}\n```", style="text") for text in texts]

    def script(request: Heard) -> Response:
        if request.tools:
            return Refused(400, "tools are not supported by this model")
        return queue.pop(0)

    return script


def test_a_server_without_tools_gets_the_protocol_as_text(wire: str, judge: Shared) -> None:
    with LoopbackServer(without_tools(checked(draft(BODY)), SUBMIT_FIRST)) as server:
        with AsyncBridge(Partner(server, wire).open()) as bridge:
            (proposal,) = ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        assert "How to use a tool here" in server.requests[1].system
    assert proposal.idea == "One element a thread."


def test_calls_as_text_read_like_any_other_and_are_not_carried_out_twice(
    wire: str, judge: Shared
) -> None:
    wrong = Calls.of("show", what="nothing of that name", from_line=1)
    written = (checked(draft(BODY)), wrong, SUBMIT_FIRST)
    with LoopbackServer(without_tools(*written)) as server:
        partner = Partner(server, wire)
        with AsyncBridge(partner.open()) as bridge:
            ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        recorded = partner.ledger.calls()
        again = Partner(server, wire, ledger=MemoryLedger(recorded))
        with AsyncBridge(again.open()) as bridge:
            (proposal,) = ModelCoder(bridge, Forbidden(judge)).write(TASK, DEVICE, (), count=1)
    assert proposal.idea == "One element a thread."
    (held,) = transcripts(recorded)
    lines = [line.strip() for line in transcript_lines(held)]
    assert "→ check: One element a thread." in lines
    assert "out[i] = x[i] * 2.0f + 1.0f;" in lines
    assert lines.count("Well.") == len(written)
    assert [line.split()[0] for line in lines if line.startswith(("✓ d1", "✗ there is no program"))
            ] == ["✓", "✗"]  # fmt: skip
    assert not [line for line in lines if line.startswith(("```json", '{"tool"'))]


def test_a_call_as_text_that_is_no_json_is_told_so(wire: str, judge: Shared) -> None:
    broken = Said('{"tool": "check", "arguments": {"program": ', style="text")
    with partner(wire, turns(broken)) as talker, AsyncBridge(talker.open()) as bridge:
        ModelCoder(bridge, Bench(judge)).write(TASK, DEVICE, (), count=1)
        assert "expected one whole JSON object" in talker.server.requests[1].text
