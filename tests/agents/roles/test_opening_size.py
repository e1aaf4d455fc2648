"""No conversation about any task of the catalog or the yardstick opens with more than 40 KB."""

from contextlib import suppress
from functools import cache
from itertools import groupby

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.repairer import repairer_prompt
from kernelwright.agents.roles.reply.reply_schema import Correction, Cut, ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.coder_prompt import Brief, Start, coder_prompt
from kernelwright.agents.session import AsyncBridge
from kernelwright.agents.session.workbench import Sibling
from kernelwright.campaign.agent_bench import bench_tasks
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import Dtype, Graph, canonicalize, capture
from kernelwright.ir.trace.replay import to_mlx_dtype
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.scene import DEVICE, correct, draft
from tests.agents.loopback.server import LoopbackServer, Refused, Response
from tests.agents.loopback.wire import Heard, Said

MOST = 40_000
_HISTORY = 12_500
"""Bytes that the best program, its profile, inspirations, lessons and attempts find room for."""
GROUPS = {
    group: tuple(entries)
    for group, entries in groupby(catalog.entries(), key=lambda entry: entry.group)
}


def opening_bytes(graph: Graph, name: str) -> int:
    prompt = coder_prompt(Task(graph, name), DEVICE, (), Brief(start=Start()))
    return max(prompt.opening_bytes, planner_prompt(graph, DEVICE).opening_bytes)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.sampled(8)
def test_the_catalogs_tasks_leave_room_for_the_best_program(group: str) -> None:
    for entry in GROUPS[group]:
        arrays = [mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in entry.types(Dtype.FLOAT16)]
        graph = canonicalize(capture(entry.function, *arrays))
        assert opening_bytes(graph, entry.name) <= MOST - _HISTORY, entry.name


def test_the_yardsticks_tasks_leave_room_for_the_best_program() -> None:
    for task in bench_tasks():
        arrays = [mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in task.inputs]
        graph = canonicalize(capture(task.function, *arrays))
        assert opening_bytes(graph, task.name) <= MOST - _HISTORY, task.name


def overlong(task: Task, number: int) -> Attempt:
    """A program of long texts with a long profile, and much to say of it."""
    interface = Interface(task)
    (name, *_), (made, *_) = interface.input_names, interface.output_names
    lines = [f'{made}[i] = {name}[i] + {n}.0f;  // "µs"' for n in range(number, number + 400)]
    written = draft("\n".join(lines), "An idea. " * 60).model_dump()
    (kernel,) = written["kernels"]
    arrays = {"inputs": list(interface.input_names), "outputs": list(interface.output_names)}
    kernel.update({**arrays, "header": "\n".join(f"// {line}" for line in lines)})
    program = ProgramDraft.model_validate(written).program(interface)
    right = correct().evaluation
    verdict = {"program": program.id, "predicted_us": 900.0, "counters": right.counters * 20}
    return Attempt(
        proposal=Proposal(program=program, author="offline", idea="An idea. " * 60),
        evaluation=right.model_copy(update=verdict),
    )


def steps(x: mx.array) -> mx.array:
    for step in range(30):
        x = mx.where(x > step, x * 1.01 + step, x - 0.5) / mx.sum(mx.abs(x), axis=-1, keepdims=True)
    return x


@cache
def overlong_prompts() -> dict[str, tuple[Prompt, type[Cut] | type[Correction] | None]]:
    """The longest of each role: a graph of hundreds of nodes, and all that may stand beside it."""
    task = Task(canonicalize(capture(steps, mx.zeros((8, 64)))), "steps")
    tried = [overlong(task, number) for number in range(3)]
    sibling = Sibling(
        name="s" * 8, task="t" * 300, idea="i" * 300, program=tried[0].proposal.program
    )
    brief = Brief(
        start=Start(tried[0], (tried[1], tried[2]), combines=True),
        strategy="s" * 3000,
        siblings=(sibling,) * 3,
    )
    wrong = {"status": Status.WRONG, "summary": "w" * 9000}
    failed = tried[0].model_copy(
        update={"evaluation": tried[0].evaluation.model_copy(update=wrong)}
    )
    return {
        "coder": (coder_prompt(task, DEVICE, tried * 4, brief), None),
        "planner": (planner_prompt(task.graph, DEVICE), Cut),
        "repairer": (repairer_prompt(task, DEVICE, failed), Correction),
    }


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
def test_no_request_without_history_is_larger_than_40_kilobytes(wire: str) -> None:
    purpose = Purpose(role="coder", task="steps")

    def toolless(request: Heard) -> Response:
        if request.tools or request.has_schema:
            return Refused(400, "tools and json_schema are not supported by this model")
        return Said("No.", stop="refused")

    with LoopbackServer(toolless) as server:
        with AsyncBridge(Partner(server, wire).open()) as bridge:
            for prompt, shape in overlong_prompts().values():
                with suppress(ReplyError):
                    if shape is None:
                        bridge.turn(prompt, purpose)
                    else:
                        bridge.ask(prompt, shape, purpose)
        sizes = [request.prompt_bytes for request in server.requests]
    assert len(sizes) >= 3
    assert max(sizes) <= MOST
