"""Whatever a program's fields hold, the answer is an evaluation."""

import json

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.kernel import Program

REFUSED = {Status.MALFORMED, Status.FORBIDDEN, Status.LAUNCH_ERROR, Status.OUT_OF_MEMORY,
           Status.COMPILE_ERROR}  # fmt: skip


DEEP = f"for (uint i = thread_position_in_grid.x; i < 9; i++) y[i] = {'(' * 40000}1{')' * 40000};"


def _changed(**fields: object) -> Program:
    data = json.loads(bases()["softmax"].program.model_dump_json())
    data["kernels"][0] |= fields
    return Program.model_validate(data)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"grid": [1 << 31, 1, 1]}, Status.MALFORMED),
        ({"grid": ["rows*4000000000", 1, 1]}, Status.MALFORMED),
        ({"grid": [10**30, 1, 1]}, Status.MALFORMED),
        ({"threadgroup": [1, 1 << 31, 1]}, Status.MALFORMED),
        ({"template": {"width": 1 << 31}}, Status.MALFORMED),
        ({"template": {"width": -(1 << 63)}}, Status.MALFORMED),
        ({"template": {"width": "cols*cols*cols*cols*cols*cols"}}, Status.MALFORMED),
        ({"source": "y[0] = 1; // \ud800"}, Status.FORBIDDEN),
        ({"header": "int a;\ud800\udfff"}, Status.FORBIDDEN),
        ({"source": "y[0] = 1;\0"}, Status.FORBIDDEN),
        ({"source": "y[0] = 1;" * 20000}, Status.FORBIDDEN),
        ({"source": "f(," * 30000}, Status.FORBIDDEN),
        ({"source": DEEP}, Status.COMPILE_ERROR),
        ({"source": ""}, Status.LAUNCH_ERROR),
        ({"template": {"thread_position_in_grid": 1}}, Status.FORBIDDEN),
    ],
)
def test_absurd_fields_are_a_verdict(
    evaluator: Evaluator, fields: dict[str, object], status: Status
) -> None:
    found = evaluator.evaluate(task_of("softmax"), _changed(**fields))
    assert found.status in REFUSED
    assert found.status is status, found.summary
    assert found.model_dump_json()


def test_many_launches_are_malformed(evaluator: Evaluator) -> None:
    data = json.loads(bases()["softmax"].program.model_dump_json())
    kernel = data["kernels"][0]
    names = [f"t{i}" for i in range(100)]
    data["temporaries"] = [data["outputs"][0] | {"name": name} for name in names]
    data["kernels"] += [kernel | {"outputs": [name], "name": f"k_{name}"} for name in names]
    found = evaluator.evaluate(task_of("softmax"), Program.model_validate(data))
    assert found.status is Status.MALFORMED
    assert "101 launches" in found.summary
