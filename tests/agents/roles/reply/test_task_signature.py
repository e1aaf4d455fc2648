"""A task's arrays get names that Metal accepts, and dimensions that may vary together."""

import mlx.core as mx
import pytest

from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.agents.session.tools.draft_book import DraftBook
from kernelwright.errors import InputError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Dtype, TensorType, canonicalize, capture
from tests.agents.loopback.example import (
    GUARD,
    causal_conv_inputs,
    causal_conv_silu,
    convolution,
)
from tests.agents.loopback.scene import BODY, DEVICE, TASK, draft


def add(half: mx.array, out: mx.array) -> mx.array:
    return half + out


def captured(rows: int, columns: int) -> Task:
    return Task(capture(add, mx.zeros((rows, columns)), mx.zeros((columns,))), "add")


def test_names_avoid_metal_and_each_other() -> None:
    interface = Interface(captured(4, 8))
    assert interface.input_names == ("half_in", "out")
    assert interface.output_names == ("out_",)


def test_axes_of_one_size_share_a_dimension_until_a_variant_tells_them_apart() -> None:
    square = captured(8, 8)
    assert [d.size for d in Interface(square).dimensions] == [8]
    told = Task(square.graph, "add", variants=(captured(4, 8).graph,))
    assert [d.places for d in Interface(told).dimensions] == [
        ("half_in axis 0",),
        ("half_in axis 1", "out axis 0"),
    ]


def test_a_generic_program_binds_at_other_sizes() -> None:
    program = draft(BODY, any_size=["n0"]).program(Interface(TASK))
    bound = program.bind([TensorType((11, 71), Dtype.FLOAT32)])
    assert bound.outputs[0].shape == (11, 71)
    assert bound.launches[0].grid == (781, 1, 1)


def test_a_padded_axis_is_served_at_any_size() -> None:
    graph = canonicalize(capture(causal_conv_silu, *causal_conv_inputs()))
    claiming = convolution(GUARD).model_copy(update={"any_size": ["n0"]})
    program = claiming.program(Interface(Task(graph, "mixer")))
    assert program.inputs[0].shape[1] == "n0"
    assert claiming.unserved_sizes(Interface(Task(graph, "mixer"))) == ""


def test_a_claim_that_nobody_can_check_is_not_taken_and_named() -> None:
    # A transform has one size: the evaluator could try the program at no other.
    graph = canonicalize(capture(lambda x: mx.fft.fft(x, axis=1).real, mx.zeros((6, 71))))
    task = Task(graph, "transform")
    claiming = draft(BODY, any_size=["n0", "n1"])
    assert claiming.program(Interface(task)).inputs[0].shape == (6, 71)
    assert claiming.unserved_sizes(Interface(task)) == (
        "It is judged at n0 = 6 and n1 = 71 alone: the task cannot be tried at another size of it."
    )
    assert "- `n1` = 71 (x axis 1), at this size only" in task_text(task, DEVICE)
    assert "at this size only" not in task_text(TASK, DEVICE)
    (kept,) = [DraftBook(Interface(task)).add(claiming)]
    assert kept.note.startswith("It is judged at n0 = 6")
    assert not DraftBook(Interface(TASK)).add(claiming).note


def _tunable(name: str) -> dict[str, object]:
    return {"name": name, "choices": [1, 2], "value": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"any_size": ["rows"]}, "any_size names rows; the task's dimensions are n0, n1"),
        ({"tunables": [_tunable("n0")]}, "tunable n0 has the name of a dimension of the task"),
        ({"tunables": [_tunable("align")]}, "tunable align has the name of a function"),
        ({"tunables": [_tunable("t"), _tunable("t")]}, "tunable t has the name of another tunable"),
        ({"grid": ["n0"]}, "grid has three sizes"),
        ({"grid": ["n9", 1, 1]}, "unknown dimension n9 in the grid of kernel affine; expected"),
        ({"grid": ["n0 **", 1, 1]}, "launch arithmetic"),
        ({"inputs": ["y"]}, "reads 'y' before it is made"),
        ({"name": "two words"}, "name: expected it to be a name of at most 64 letters"),
    ],
)
def test_a_draft_that_is_no_program_says_why(change: dict[str, object], words: str) -> None:
    data = draft(BODY).model_dump()
    kernel = data["kernels"][0]
    for key, value in change.items():
        (kernel if key in kernel else data)[key] = value
    with pytest.raises(InputError, match=words):
        ProgramDraft.model_validate(data).program(Interface(TASK))
