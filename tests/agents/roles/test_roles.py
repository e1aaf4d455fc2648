"""Planner, coder and repairer over loopback servers: what is asked, and what gets through."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mlx.core as mx
import pytest

from kernelwright.agents.protocols import Attempt, Plan, Proposal
from kernelwright.agents.roles.coder import ModelCoder
from kernelwright.agents.roles.planner import ModelPlanner
from kernelwright.agents.roles.repairer import FirstRepairer, ModelRepairer
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.session import AsyncBridge
from kernelwright.agents.session.workbench import Sibling
from kernelwright.errors import BudgetError, ModelError
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, Region, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    DEVICE,
    DONE,
    FIXED_RACE,
    RACE,
    TASK,
    TYPO,
    attempt,
    correct,
    correction,
    draft,
    racing,
    submitted,
    uncompiled,
    unproven,
)
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Calls, Heard, Said


@contextmanager
def talking(provider: str, *responses: Response) -> Iterator[tuple[AsyncBridge, LoopbackServer]]:
    queue = list(responses)

    def script(request: Heard) -> Response:
        return queue.pop(0) if len(queue) > 1 else queue[0]

    with (
        LoopbackServer(script) as server,
        AsyncBridge(Partner(server, provider).open()) as board,
    ):
        yield board, server


class Closed:
    """A workbench on which nothing may be tried."""

    info = DEVICE

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        raise BudgetError("the evaluations that were allowed are done.")

    def siblings(self, task: Task) -> Sequence[Sibling]:
        return ()


def taking(predicted_us: float) -> Attempt:
    """A correct attempt that takes so long."""
    right = correct()
    evaluation = right.evaluation.model_copy(update={"predicted_us": predicted_us})
    return right.model_copy(update={"evaluation": evaluation})


def coder(board: AsyncBridge) -> ModelCoder:
    return ModelCoder(board, Closed())


def test_a_coder_proposes_what_the_model_submits(provider: str) -> None:
    reply = submitted(draft(BODY), draft(CHEAT, "Ignore the input."))
    with talking(provider, reply) as (board, server):
        proposals = coder(board).write(TASK, DEVICE, (), count=4)
    assert [p.idea for p in proposals] == ["One element a thread.", "Ignore the input."]
    assert proposals[0].author == board.name
    assert proposals[0].program.kernels[0].grid == ("6 * 71", 1, 1)
    assert not server.requests[0].forced_tool
    assert server.requests[0].tools == (
        *("check", "edit", "measure", "reference", "show", "submit", "done"),
    )
    assert "double_plus_one" in server.requests[0].text


def test_what_was_tried_before_is_sent_back(provider: str) -> None:
    renamed = BODY.replace("uint i", "uint j").replace("[i]", "[j]")
    again, fresh = submitted(draft(renamed)), submitted(draft(CHEAT))
    with talking(provider, again, fresh) as (board, server):
        proposals = coder(board).write(TASK, DEVICE, (taking(40.0),), count=4)
    assert len(proposals) == 1
    assert "differs in nothing that matters" in server.requests[1].messages[-1][1]


def test_a_program_that_was_refused_for_a_comment_can_be_submitted_without_it(
    provider: str,
) -> None:
    refused = attempt(draft(f"{BODY} // \u200b"), Status.FORBIDDEN, "no character of a text")
    with talking(provider, submitted(draft(BODY))) as (board, _):
        assert len(coder(board).write(TASK, DEVICE, (refused,), count=1)) == 1


def test_a_draft_that_is_no_program_is_sent_back_with_the_reason(provider: str) -> None:
    bad = draft(BODY, grid=["rows", 1, 1])
    with talking(provider, submitted(bad), submitted(draft(BODY))) as (board, server):
        assert len(coder(board).write(TASK, DEVICE, (), count=1)) == 1
    assert "unknown dimension rows" in server.requests[1].messages[-1][1]


@pytest.mark.parametrize(
    "response",
    [Said("I will not.", stop="refused"), Said("Sorry, no idea.", style="text"), DONE],
    ids=["refusal", "garbage", "done"],
)
def test_a_useless_conversation_ends_and_yields_no_candidate(provider: str, response: Said) -> None:
    with talking(provider, response) as (board, server):
        assert coder(board).write(TASK, DEVICE, (), count=2) == []
    assert len(server.requests) == (3 if response.style == "text" else 1)


def test_a_bad_key_is_an_error_not_an_empty_batch(provider: str) -> None:
    with (
        talking(provider, Refused(401, "invalid key")) as (board, _),
        pytest.raises(ModelError, match="refuses the key"),
    ):
        coder(board).write(TASK, DEVICE, (), count=2)


def test_a_verdict_is_told_in_the_conversation_that_wrote_the_program(provider: str) -> None:
    failed = racing()
    wrong, right = submitted(draft(RACE, "Through a tile.")), submitted(draft(FIXED_RACE))
    with talking(provider, wrong, right) as (board, server):
        writer = coder(board)
        (first,) = writer.write(TASK, DEVICE, (), count=1)
        assert first.program.id == failed.proposal.program.id
        assert writer.owns(TASK, (), first.program.id)
        (second,) = writer.write(TASK, DEVICE, (failed,), count=1)
    told = server.requests[1].messages
    assert [speaker for speaker, _ in told][:2] == ["user", "assistant"]
    assert "threadgroup race" in told[-1][1]
    assert "threadgroup_barrier" in second.program.kernels[0].source


def test_the_last_verdict_is_told_and_what_was_learnt_comes_back(provider: str) -> None:
    learnt = Said(calls=(Calls.of("done", because="A barrier was missing."),))
    with talking(provider, submitted(draft(RACE, "Through a tile.")), learnt) as (board, server):
        writer = coder(board)
        writer.write(TASK, DEVICE, (), count=1)
        assert writer.awaits(TASK)
        (said,) = writer.conclude(TASK, (racing(),))
        assert said.text == "A barrier was missing."
        assert not writer.awaits(TASK)
    assert (
        "threadgroup race" in server.requests[1].messages[-1][1]
        or "threadgroup race" in (server.requests[1].messages[-2][1])
    )


def test_nobody_is_asked_at_the_floor(provider: str) -> None:
    with talking(provider, DONE) as (board, server):
        assert coder(board).write(TASK, DEVICE, (taking(0.1),), count=1) == ()
    assert not server.requests


def test_a_repairer_sees_the_diagnosis_and_returns_a_whole_program(provider: str) -> None:
    failed = racing()
    reply = Said(correction("No barrier.", draft(FIXED_RACE)))
    with talking(provider, reply) as (board, server):
        proposal = ModelRepairer(board).repair(TASK, DEVICE, failed)
    assert proposal is not None
    assert proposal.parent == failed.proposal.program.id
    assert "threadgroup_barrier" in proposal.program.kernels[0].source
    assert "threadgroup race" in server.requests[0].text


def test_a_repair_that_changes_nothing_is_sent_back(provider: str) -> None:
    same = Said(correction("?", draft(TYPO)))
    right = Said(correction("A suffix.", draft(BODY)))
    with talking(provider, same, right) as (board, server):
        assert ModelRepairer(board).repair(TASK, DEVICE, uncompiled()) is not None
    assert "nothing that matters has changed" in server.requests[1].messages[-1][1]


def test_a_closed_verdict_reaches_a_repairer_without_its_reasons(provider: str) -> None:
    reply = Said(correction("An assumption.", draft(FIXED_RACE)))
    with talking(provider, reply) as (board, server):
        ModelRepairer(board).repair(TASK, DEVICE, unproven())
    assert "4093" not in server.requests[0].text
    assert "not confirmed by the closed ones" in server.requests[0].text


def test_correct_programs_are_not_repaired(provider: str) -> None:
    with talking(provider, Said("unused")) as (board, server):
        assert ModelRepairer(board).repair(TASK, DEVICE, correct()) is None
    assert not server.requests


def test_the_cheap_repairer_is_asked_first(provider: str) -> None:
    mended = draft(BODY)

    class Mechanic:
        def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
            if failed.evaluation.status is Status.COMPILE_ERROR:
                return attempt(mended, Status.CORRECT, "").proposal
            return None

    with talking(provider, Said(correction("No barrier.", draft(FIXED_RACE)))) as (board, server):
        repairer = FirstRepairer([Mechanic(), ModelRepairer(board)])
        assert repairer.repair(TASK, DEVICE, uncompiled()) is not None
        assert not server.requests
        assert repairer.repair(TASK, DEVICE, racing()) is not None
    assert len(server.requests) == 1


def normed_product(x: mx.array, w: mx.array) -> mx.array:
    scaled = x * mx.rsqrt(mx.sum(x * x, axis=-1, keepdims=True) + 1e-5)
    return mx.tanh(scaled @ w) * 2.0


GRAPH = canonicalize(capture(normed_product, mx.zeros((8, 64)), mx.zeros((64, 32))))


class NoPlan:
    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        return Plan(regions=(), author="offline")


def cut(*regions: list[int]) -> Said:
    return Said(
        json.dumps(
            {
                "regions": [
                    {"nodes": nodes, "strategy": "One group a row.", "benefit": "One pass less."}
                    for nodes in regions
                ],
                "left": [{"op": "matmul", "reason": "MLX is good at it."}],
            }
        )
    )


PRODUCT = next(i for i, node in enumerate(GRAPH.nodes) if node.op == "matmul")
BEFORE = list(range(PRODUCT))
AFTER = list(range(PRODUCT + 1, len(GRAPH.nodes)))


def test_a_legal_cut_becomes_the_plan(provider: str) -> None:
    with talking(provider, cut(BEFORE, AFTER)) as (board, server):
        plan = ModelPlanner(board, NoPlan()).plan(GRAPH, DEVICE)
    assert [list(r.indices) for r in plan.regions] == [BEFORE, AFTER]
    assert plan.author == board.name
    assert plan.left == (("matmul", "MLX is good at it."),)
    assert "matmul" in server.requests[0].text
    assert "stays" in server.requests[0].text


def test_a_strategy_says_what_its_values_are_called_where_it_is_read(provider: str) -> None:
    strategies: dict[str, str] = {}
    with talking(provider, cut(BEFORE, AFTER)) as (board, _):
        ModelPlanner(board, NoPlan(), strategies).plan(GRAPH, DEVICE)
    product = GRAPH.nodes[PRODUCT].outputs[0]
    before, after = (Region(GRAPH, tuple(nodes)).extract() for nodes in (BEFORE, AFTER))
    assert strategies[before.fingerprint] == "One group a row."
    made = sorted(v for node in GRAPH.nodes for v in node.outputs).index(product)
    own = Interface(Task(after, "after")).input_names
    told = strategies[after.fingerprint]
    assert re.fullmatch(rf"\(Here .*%{made} is ({'|'.join(own)})\b.*\) One group a row\.", told)


def test_an_illegal_region_goes_back_with_the_reason(provider: str) -> None:
    around = [*BEFORE, *AFTER]
    with talking(provider, cut(around), cut(BEFORE, AFTER)) as (board, server):
        plan = ModelPlanner(board, NoPlan()).plan(GRAPH, DEVICE)
    assert len(plan.regions) == 2
    assert "matmul" in server.requests[1].messages[-1][1]
    assert "not legal" in server.requests[1].messages[-1][1]


def test_a_region_that_no_template_knows_is_a_models_to_write(provider: str) -> None:
    everything = list(range(len(GRAPH.nodes)))
    with talking(provider, cut(everything)) as (board, _):
        plan = ModelPlanner(board, NoPlan()).plan(GRAPH, DEVICE)
    assert [list(r.indices) for r in plan.regions] == [everything]


def test_overlapping_and_unknown_nodes_are_refused_and_the_rest_kept(provider: str) -> None:
    with talking(provider, cut(BEFORE, BEFORE, [99])) as (board, server):
        plan = ModelPlanner(board, NoPlan()).plan(GRAPH, DEVICE)
    assert [list(r.indices) for r in plan.regions] == [BEFORE]
    # It said the same twice, and is not asked a third time.
    assert len(server.requests) == 2
    assert "in another region already" in server.requests[1].messages[-1][1]
    assert "there is no node 99" in server.requests[1].messages[-1][1]


def test_without_a_usable_cut_the_fallback_plans(provider: str) -> None:
    with talking(provider, Said("Cut it in half.", style="text")) as (board, _):
        assert ModelPlanner(board, NoPlan()).plan(GRAPH, DEVICE).author == "offline"
