"""Two programs are one when they differ in nothing that matters."""

import re

import mlx.core as mx
import pytest

from kernelwright.agents.roles.reply.dedup import mark_of, marks, signature
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.evaluator.evaluation import Status
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from tests.agents.loopback.scene import BODY, DEVICE, TASK, attempt, draft


def mark(source: str, group: int = 64) -> str:
    return signature(draft(source, group=group).program(Interface(TASK)))


@pytest.mark.parametrize(
    "source",
    [
        BODY.replace("uint i", "uint  place").replace("[i]", "[place]"),
        "// Fast!\n" + BODY.replace("\n", "\n\n  "),
        BODY.replace("2.0f", "/* two */ 2.0f"),
    ],
    ids=["names", "layout", "comments"],
)
def test_names_comments_and_layout_do_not_matter(source: str) -> None:
    assert mark(source) == mark(BODY)


@pytest.mark.parametrize(
    "source",
    [
        BODY.replace("2.0f", "3.0f"),
        BODY.replace("x[i]", "metal::fast::exp(x[i])"),
        BODY.replace("x[i]", "metal::precise::exp(x[i])"),
        BODY.replace("uint i", "int i"),
        BODY.replace("thread_position_in_grid.x", "thread_position_in_grid.y"),
    ],
)
def test_what_is_computed_matters(source: str) -> None:
    others = {mark(BODY), mark(BODY.replace("x[i]", "metal::exp(x[i])"))}
    assert mark(source) not in others


def test_the_launch_matters() -> None:
    assert mark(BODY, group=32) != mark(BODY)


def test_names_of_extents_do_not_matter_and_the_launch_over_them_does() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((37, 64))))
    program = lower(graph, schedules(graph, DEVICE)[0])
    text = program.model_dump_json()
    (name,) = {size for t in program.inputs for size in t.shape if isinstance(size, str)}
    renamed = Program.model_validate_json(re.sub(rf"\b{name}\b", "tokens", text))
    kernel = program.kernels[0]
    grid = (f"{kernel.grid[0]} * 2", *kernel.grid[1:])
    wider = program.model_copy(update={"kernels": (kernel.model_copy(update={"grid": grid}),)})
    assert renamed.id != program.id
    assert signature(renamed) == signature(program)
    assert signature(wider) != signature(program)


def test_what_was_refused_for_its_text_is_not_its_correction() -> None:
    hidden = draft(f"{BODY} // zero \u200b width")
    mended = marks(draft(BODY).program(Interface(TASK)))
    refused = mark_of(attempt(hidden, Status.FORBIDDEN, "no character of a text"))
    assert refused not in mended
    assert refused in marks(hidden.program(Interface(TASK)))
    assert mark_of(attempt(hidden, Status.WRONG, "wrong")) in mended
