"""What stands in a program's text is among its inputs and its shapes."""

import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import Edit, apply, bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.literals import literals_of, place_literals, sizes_of
from kernelwright.evaluator.inputs.shape import sized_graphs, visible_graphs
from kernelwright.evaluator.inputs.suite_plan import literal_cases
from kernelwright.evaluator.oracle.reference import prepare
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

CONFIG = EvaluatorConfig(secret="tests")


def program_with(text: str) -> Program:
    edit = {"name": "n", "class": "S13", "expect": ["wrong"], "why": "", "append": text}
    return apply(bases()["softmax"].program, Edit.model_validate(edit))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("if (x[0] == 3.25f) y[0] = 0;", 3.25),
        ("if (x[0] > 6.5) y[0] = 0;", 6.5),
        ("if (x[0] == .125h) y[0] = 0;", 0.125),
        ("if (x[0] == 1e-3f) y[0] = 0;", 1e-3),
        ("if (as_type<uint>(x[0]) == 0x40500000) y[0] = 0;", 3.25),
        ("if (as_type<uint>(x[0]) == 1078984704u) y[0] = 0;", 3.25),
        ("if (width == 777) y[0] = 0;", 777.0),
    ],
)
def test_numbers_of_a_text_are_read(text: str, number: float) -> None:
    assert number in literals_of(program_with(text))


def test_numbers_in_comments_and_names_are_none() -> None:
    found = literals_of(program_with("// 4.75\n/* 5.75 */ float x9 = 0; float y_8 = x9;"))
    assert not {4.75, 5.75, 9.0} & set(found)


@pytest.mark.parametrize("secret", "abcdefgh")
def test_literals_their_neighbours_and_negatives_are_drawn(secret: str) -> None:
    case = Case(task_of("softmax").graph, Distribution.LITERALS, literals=(3.25, 6.5))
    x = case.inputs(secret)[0]
    neighbour = float(np.nextafter(np.float32(3.25), np.float32(9)))
    assert {3.25, -3.25, neighbour, 6.5, 7.5} <= set(x.astype(float).flat)
    assert (x == np.float32(3.25)).all(axis=1).any()


def test_sizes_of_a_text_become_shapes() -> None:
    program = program_with("if (width == 45) y[0] = 0;")
    assert 45 in sizes_of(program)
    graphs = sized_graphs(task_of("softmax"), program, CONFIG)
    assert any(45 in g.input_types[0].shape for g in graphs)
    assert {g.input_types[0].shape[1] for g in graphs} & {45}
    assert {g.input_types[0].shape[0] for g in graphs} & {45}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("if ((width >> 17) != 0) y[0] = 0;", 1 << 17),
        ("if (width > (1u << 16)) y[0] = 0;", 1 << 16),
        ("if (width * 3 > 200000) y[0] = 0;", 66667),
        ("if (7u * width >= 200000u) y[0] = 0;", 28572),
        ("if (width > 100000) y[0] = 0;", 100001),
    ],
)
def test_sizes_beyond_a_shift_or_a_compared_product_become_shapes(text: str, size: int) -> None:
    program = program_with(text)
    assert size in sizes_of(program)
    graphs = sized_graphs(task_of("softmax"), program, CONFIG)
    assert any(size in g.input_types[0].shape for g in graphs)


@pytest.mark.parametrize(
    "text",
    [
        "if (width > 64) y[0] = 0;",
        "float t = 1e9; // width > 100000",
        "uint u = width << 3;",
        "uint v = width >> 31;",
    ],
)
def test_other_texts_have_no_size_beyond_all_others(text: str) -> None:
    assert all(size <= 8192 for size in sizes_of(program_with(text)))


def test_literal_cases_stay_small_where_another_shape_serves() -> None:
    task = task_of("softmax")
    small = CONFIG.model_copy(update={"case_elements": 64})
    assert literal_cases(task.graph, (), (), (33.0,), small) == ()
    cases = literal_cases(task.graph, (), (), (3.25,), small)
    assert [c.graph for c in cases] == [task.graph], "a float is worth a case of any size"


def test_a_literal_has_its_case_at_the_smallest_shape_where_none_is_small() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    others = visible_graphs(task, program, CONFIG)
    served = (task.graph, *others)
    no_small = CONFIG.model_copy(update={"case_elements": 0})
    (case,) = literal_cases(task.graph, others, (), (3.25,), no_small)
    assert case.graph.element_count == min(g.element_count for g in served)
    assert case.graph.element_count < task.graph.element_count


def test_one_number_stands_as_far_above_all_others_as_the_text_says() -> None:
    graph = task_of("softmax").graph
    case = Case(graph, Distribution.LITERALS, literals=(11.5,))
    rows = case.inputs("tests")[0].astype(np.float32)
    top = np.sort(rows, axis=1)[:, ::-1]
    apart = top[:, 0] - top[:, 1]
    assert ((apart > 11.5) & (apart < 12) & (top[:, 1] == top[:, -1])).any()


@pytest.mark.parametrize("dtype", [d for d in Dtype if d is not Dtype.BOOL])
def test_numbers_beyond_a_dtype_are_placed_without_a_warning(dtype: Dtype) -> None:
    values = np.zeros((16, 64), np.float32)
    ends = (3.4e38, 1e300, 65504.0, float(2**64), 5e-324)
    place_literals(values, ends, dtype, np.random.default_rng(0))
    assert values.any()


@pytest.mark.parametrize("kind", list(Distribution))
def test_a_case_of_any_kind_is_drawn_and_prepared_without_a_warning(kind: Distribution) -> None:
    task = task_of("softmax")
    case = Case(task.graph, kind, literals=(3.4e38, 1e300, 65504.0))
    assert prepare(case, task.output_tolerances, "tests").elements
