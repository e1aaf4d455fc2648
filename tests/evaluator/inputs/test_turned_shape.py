"""Conditions on sizes are turned by a shape, whatever arithmetic hides them."""

import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import Edit, apply, bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.shape import visible_graphs
from kernelwright.evaluator.inputs.size_condition import size_conditions
from kernelwright.evaluator.inputs.turned_shape import turned_graphs
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program, Tunable

CONFIG = EvaluatorConfig(secret="tests")


def program_with(text: str) -> Program:
    edit = {"name": "n", "class": "S11", "expect": ["wrong"], "why": "", "append": text}
    return apply(bases()["softmax"].program, Edit.model_validate(edit))


def turned(text: str) -> list[tuple[int, ...]]:
    task, program = task_of("softmax"), program_with(text)
    known: tuple[Graph, ...] = (task.graph, *visible_graphs(task, program, CONFIG))
    found = turned_graphs(task, program, known, CONFIG)
    return [g.input_types[0].shape for g in found]


@pytest.mark.parametrize(
    "text",
    [
        "if ((uint(width) * 2654435761u) >> 20 == 77u) y[0] = 0;",
        "uint n = uint(width); if (n % 97u == 13u && n > 300u) y[0] = 0;",
        "if (width * width > 1200000 && width < 1300) y[0] = 0;",
        "uint g = threadgroups_per_grid.x; y[0] = (g ^ 0x3A7u) == 0u ? 0 : y[0];",
        "uint3 t = threads_per_grid; if (metal::popcount(t.x) == 10) y[0] = 0;",
        "if (x_shape[0] == 12 && x_shape[1] == 34) y[0] = 0;",
        "y[0] = y[ushort(threadgroup_position_in_grid.x) * uint(width)];",
        "y[0] += float((uint(width) >> 13) & 1u);",
    ],
)
def test_a_condition_on_sizes_gets_a_shape_that_turns_it(text: str) -> None:
    (shape, *_) = turned(text)
    sizes = {"rows": np.array([9, shape[0]]), "cols": np.array([100, shape[1]])}
    assert any(len(set(flags)) == 2 for flags in size_conditions(program_with(text), sizes))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "if (uint(width) % 4u == 0u) y[0] = y[0];",
        "uint j = lane; j += 1; if (j > 9999999u) y[0] = 0;",
        "if (x[0] > 3.0f) y[0] = y[0];",
        "if (sizeof(width) == 4) y[0] = y[0];",
    ],
)
def test_what_the_cases_turn_or_no_size_does_costs_no_shape(text: str) -> None:
    assert turned(text) == []


@pytest.mark.parametrize("name", ["width", "lambda", "is"])
def test_a_tunable_in_launch_arithmetic_is_its_value(name: str) -> None:
    program = bases()["softmax"].program
    (kernel,) = program.kernels
    template = {**kernel.template, "WIDE": f"cols * 004 * {name} // 4"}
    source = f"{kernel.source}\nif (WIDE == 1212u) y[0] = 0;"
    open_ = program.model_copy(
        update={
            "kernels": (kernel.model_copy(update={"template": template, "source": source}),),
            "tunables": (*program.tunables, Tunable(name=name, choices=(2, 4), value=4)),
        }
    )
    known = tuple(visible_graphs(task_of("softmax"), open_, CONFIG))
    found = turned_graphs(task_of("softmax"), open_, (task_of("softmax").graph, *known), CONFIG)
    assert [g.input_types[0].shape[1] for g in found] == [303]
