"""The second look at accepted programs finds what is wrong and leaves honest ones alone."""

from collections.abc import Iterator

import pytest

from kernelwright.evaluator.attacks.corpus import apply, bases, task_of
from kernelwright.evaluator.attacks.redteam.disproof import Battery, disprove, disprove_on
from kernelwright.evaluator.attacks.redteam.runner import Runner
from kernelwright.evaluator.inputs.stated_case import InputRecipe, Recipe, StatedCase
from kernelwright.metal.kernel import Program


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as opened:
        yield opened


def _with_source(program: Program, source: str) -> Program:
    kernel = program.kernels[0].model_copy(update={"source": source})
    return program.model_copy(update={"kernels": (kernel,)})


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "argmax", "causal_softmax"])
@pytest.mark.sampled(2)
def test_an_honest_program_in_another_order_is_not_disproved(runner: Runner, name: str) -> None:
    program = bases()[name].program
    other = _with_source(program, program.kernels[0].source + "\n// another text\n")
    battery = Battery.of(1, secrets=1, seconds=6)
    assert disprove(task_of(name), other, program, battery, runner) is None


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "affine", "gather"])
def test_a_wrong_program_is_disproved_with_inputs_and_numbers(runner: Runner, name: str) -> None:
    base = bases()[name]
    edit = next(e for e in base.mutant if e.expect[0].value == "wrong" and e.replace)
    wrong = apply(base.program, edit)
    found = disprove(task_of(name), wrong, base.program, Battery.of(1, secrets=1), runner)
    assert found is not None
    assert found.disproof.expected != found.disproof.found
    assert found.disproof.wrong_elements >= 1


def test_a_stated_trigger_shows_what_draws_do_not(runner: Runner) -> None:
    task, program = task_of("swiglu"), bases()["swiglu"].program
    source = program.kernels[0].source.replace(
        "float v = ", "float v = a[0] == bfloat16_t(77.0f) ? 0 : "
    )
    cheat = _with_source(program, source)
    assert cheat != program
    trigger = Recipe(inputs=(InputRecipe(fill="constant", value="77"), InputRecipe()))
    case = StatedCase.of(task.graph, trigger)
    found = disprove_on(case, "", cheat, program, runner)
    assert found is not None
    assert found.case.startswith("stated")
    assert disprove_on(case, "", program, program, runner) is None
