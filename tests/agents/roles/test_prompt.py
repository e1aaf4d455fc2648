"""Prompts: rendered as reviewed, versioned by content, their examples sound, their secrets kept."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.agents.roles import prompt
from kernelwright.agents.roles.coder import Brief, coder_prompt
from kernelwright.agents.roles.lesson import Advice, Lesson
from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.prompt import EXAMPLES, source, version
from kernelwright.agents.roles.repairer import repairer_prompt
from kernelwright.agents.roles.task_signature import Interface
from kernelwright.evaluator.task import Task
from kernelwright.ir import capture
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.device import SimulatorDevice
from tests.agents.loopback.example import draft_in
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

ROWS, COLUMNS = 5, 70
GOLDEN = Path(__file__).parents[1] / "golden"


def rowwise(x: mx.array, residual: mx.array, weight: mx.array) -> mx.array:
    h = x.astype(mx.float32) + residual.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(h * h, axis=-1, keepdims=True) + 1e-5)
    return (h * scale * weight.astype(mx.float32)).astype(mx.float16)


def elementwise(gate: mx.array, up: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate) * up


def columns(x: mx.array) -> mx.array:
    return mx.sum(x, axis=0)


FUNCTIONS: dict[str, Callable[..., mx.array]] = {
    "rowwise": rowwise,
    "elementwise": elementwise,
    "columns": columns,
}


def inputs_of(example: str) -> list[NDArray[np.floating]]:
    random = np.random.default_rng(3)
    shapes: dict[str, list[tuple[int, ...]]] = {
        "rowwise": [(ROWS, COLUMNS), (ROWS, COLUMNS), (COLUMNS,)],
        "elementwise": [(ROWS, COLUMNS)] * 2,
        "columns": [(ROWS, COLUMNS)],
    }
    dtype = np.float16 if example == "rowwise" else np.float32
    return [random.normal(size=shape).astype(dtype) for shape in shapes[example]]


@pytest.mark.parametrize("example", EXAMPLES)
def test_worked_examples_compile_and_are_right_and_clean(example: str) -> None:
    arrays = inputs_of(example)
    graph = capture(FUNCTIONS[example], *(mx.array(a) for a in arrays))
    program = draft_in(example).program(Interface(Task(graph, example)))
    assert program.is_generic
    device = SimulatorDevice()
    result = device.compile(program.bind(graph.input_types), sanitize=True).run(
        arrays, RunOptions(sanitize=True)
    )
    with mx.stream(mx.cpu):
        expected = np.array(FUNCTIONS[example](*(mx.array(a) for a in arrays)))
    assert result.reports == ()
    np.testing.assert_allclose(result.outputs[0].astype(np.float32), expected, rtol=2e-3, atol=1e-3)


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
            improve=correct(),
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
    assert len(RENDERINGS["coder-first"]().system) < 16_000
    assert len(RENDERINGS["repairer-race"]().text) < 11_000
