"""What a program reads without having set it decides no verdict."""

import pytest

from kernelwright.evaluator.attacks.corpus import Edit, apply, bases, task_of
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Status

UNSET = {
    "a sum": ("float total = 0;", "float total;"),
    "a maximum": ("float peak = -INFINITY;", "float peak;"),
    "an array": (
        "float total = 0;",
        "float parts[4]; parts[1] = 0; float total = parts[lane & 3];",
    ),
    "a vector": ("float total = 0;", "float4 parts; float total = parts.x;"),
}


@pytest.mark.parametrize("name", UNSET)
def test_a_variable_that_nobody_set_is_never_right(evaluator: Evaluator, name: str) -> None:
    edit = {"name": "n", "class": "S4", "expect": ["wrong"], "why": "", "replace": [UNSET[name]]}
    program = apply(bases()["softmax"].program, Edit.model_validate(edit))
    found = evaluator.evaluate(task_of("softmax"), program)
    assert found.status is Status.WRONG, found.summary
