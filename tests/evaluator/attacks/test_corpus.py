"""The proof: every broken or cheating kernel is rejected, no honest one is."""

import zlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks.evaluator import corpus
from benchmarks.evaluator.first_refusal import FirstRefusals
from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.corpus import (
    Edit,
    Mutant,
    apply,
    bases,
    cast_bases,
    cast_mutants,
    mutants,
    task_of,
)
from kernelwright.evaluator.attacks.honest import HonestKernel, honest_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator

MUTANTS, CAST = tuple(mutants()), tuple(cast_mutants())
OF_A_CLASS = 2
"""So many mutants of one class run by default, each of another program; the rest with --slow."""
HONEST = honest_kernels()
SAMPLE = 12
"""Every so many of the honest kernels run by default, the others with --slow."""
CAST_SAMPLE = 24
"""So few of the mutants in further dtypes run by default."""


def _first_of_each_class() -> list[Mutant]:
    """Choose by a hash of the name, so that the classes share no few programs."""
    chosen = defaultdict[str, dict[str, Mutant]](dict)
    for mutant in sorted(MUTANTS, key=lambda m: zlib.crc32(m.name.encode())):
        programs = chosen[mutant.edit.class_]
        if len(programs) < OF_A_CLASS:
            programs.setdefault(mutant.task.fingerprint, mutant)
    names = {mutant.name for programs in chosen.values() for mutant in programs.values()}
    return [mutant for mutant in MUTANTS if mutant.name in names]


FIRST = _first_of_each_class()
OTHERS = sorted({m.name for m in MUTANTS} - {m.name for m in FIRST})


@pytest.mark.parametrize("mutant", FIRST, ids=lambda m: m.name)
def test_a_mutant_gets_the_verdict_that_it_deserves(evaluator: Evaluator, mutant: Mutant) -> None:
    found = evaluator.evaluate(mutant.task, mutant.program)
    assert found.status in mutant.edit.expect, found.summary
    assert found.summary


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_mutant_gets_its_verdict(evaluator: Evaluator, name: str) -> None:
    (mutant,) = (m for m in MUTANTS if m.name == name)
    found = evaluator.evaluate(mutant.task, mutant.program)
    assert found.status in mutant.edit.expect, found.summary
    assert found.summary


@pytest.mark.parametrize("mutant", CAST[::CAST_SAMPLE], ids=lambda m: m.name)
@pytest.mark.sampled(8)
def test_a_mutant_is_as_wrong_in_another_dtype(evaluator: Evaluator, mutant: Mutant) -> None:
    found = evaluator.evaluate(mutant.task, mutant.program)
    assert found.status in mutant.edit.expect, found.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [m for i, m in enumerate(CAST) if i % CAST_SAMPLE], ids=lambda m: m.name
)
def test_every_other_mutant_is_as_wrong_in_another_dtype(
    evaluator: Evaluator, mutant: Mutant
) -> None:
    found = evaluator.evaluate(mutant.task, mutant.program)
    assert found.status in mutant.edit.expect, found.summary


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(cast_bases()))
def test_the_program_is_as_right_in_another_dtype(evaluator: Evaluator, name: str) -> None:
    found = evaluator.evaluate(task_of(name), cast_bases()[name].program)
    assert found.is_correct, found.summary


@pytest.mark.parametrize("name", sorted(bases()))
@pytest.mark.sampled(6)
def test_the_program_behind_the_mutants_is_right(evaluator: Evaluator, name: str) -> None:
    found = evaluator.evaluate(task_of(name), bases()[name].program)
    assert found.is_correct, found.summary


@pytest.mark.parametrize("kernel", HONEST[::SAMPLE], ids=lambda k: k.name)
@pytest.mark.sampled(5)
def test_an_honest_kernel_is_right(evaluator: Evaluator, kernel: HonestKernel) -> None:
    found = evaluator.evaluate(kernel.task, kernel.program)
    assert found.is_correct, found.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", [k for i, k in enumerate(HONEST) if i % SAMPLE], ids=lambda k: k.name
)
def test_every_other_honest_kernel_is_right(evaluator: Evaluator, kernel: HonestKernel) -> None:
    found = evaluator.evaluate(kernel.task, kernel.program)
    assert found.is_correct, found.summary


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert len(MUTANTS) >= 100
    assert len(CAST) >= 300
    assert len(bases()) >= 12
    assert len(HONEST) >= 200
    classes = Counter(m.edit.class_ for m in MUTANTS)
    assert {f"S{n}" for n in range(1, 23)} <= set(classes)
    assert {"M1", "M2", "M3", "M4", "M6", "M7", "M8", "M9"} <= set(classes)


def test_an_edit_that_changes_nothing_is_refused() -> None:
    edit = Edit.model_validate(
        {"name": "n", "class": "S1", "expect": ["wrong"], "why": "", "replace": [["absent", ""]]}
    )
    with pytest.raises(InputError, match="'absent' is not in the source"):
        apply(bases()["softmax"].program, edit)


def test_a_stopped_run_over_many_secrets_goes_on_where_it_was(tmp_path: Path) -> None:
    arguments = ["--only", "steps: ", "--secrets", "3", "--jobs", "1"]
    written = tmp_path / "corpus.jsonl"
    with pytest.raises(SystemExit, match="1"):
        corpus.main([*arguments, "--minutes", "1e-9", "--json", str(written)])
    assert not corpus.read(written)
    corpus.main([*arguments, "--json", str(written)])
    outcomes = corpus.read(written)
    assert {outcome.refused for outcome in outcomes} == {3}
    assert all(outcome.is_right for outcome in outcomes)
    lines = written.read_text()
    corpus.main([*arguments, "--json", str(written)])
    assert written.read_text() == lines


def test_an_honest_program_is_accepted_under_each_secret() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    first = FirstRefusals(EvaluatorConfig())
    try:
        found = dict(first.under(task, program, ["one", "other"]))
    finally:
        first.close()
    assert found == {"one": None, "other": None}


def test_a_mutant_falls_at_the_case_of_its_verdict() -> None:
    (mutant,) = (m for m in MUTANTS if m.name == "softmax: no maximum")
    config = EvaluatorConfig(secret="one")
    first = FirstRefusals(config)
    try:
        ((_, failure),) = first.under(mutant.task, mutant.program, ["one"])
    finally:
        first.close()
    with Evaluator(config=config) as evaluator:
        found = evaluator.evaluate(mutant.task, mutant.program)
    assert failure is not None
    assert failure.reference is not None
    assert failure.reference.case.name in found.summary
