"""Which cases run under the sanitizer and again: telling kinds, at odd shapes."""

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.selection import paced, repeated, sanitized
from kernelwright.evaluator.inputs.shape import hidden_graphs, visible_graphs
from kernelwright.evaluator.inputs.suite import Suite, hidden_suite, visible_suite

CONFIG = EvaluatorConfig(secret="tests")
TELLING = {
    *(Distribution.MIXED, Distribution.MASKED, Distribution.SPECIAL),
    *(Distribution.TIED, Distribution.CONSTANT, Distribution.WIDE),
}


def suite_of(name: str) -> Suite:
    task, program = task_of(name), bases()[name].program
    return visible_suite(task, visible_graphs(task, program, CONFIG), CONFIG)


def test_the_sanitizer_sees_telling_kinds_and_odd_shapes() -> None:
    suite = suite_of("softmax")
    chosen = sanitized(suite)
    assert chosen[0] is suite.references[0]
    assert {r.case.distribution for r in chosen} >= TELLING
    others = [r.case.graph for r in chosen if r.case.graph is not chosen[0].case.graph]
    assert others
    assert any(n % 4 for g in others for n in g.input_types[0].shape)


def test_cases_of_telling_kinds_run_again_under_another_order() -> None:
    suite = suite_of("softmax")
    repeats = repeated(suite, 5)
    assert (repeats[0].place, repeats[0].runs) == (suite.largest, 5)
    again = {suite.references[r.place].case.distribution for r in repeats}
    assert again >= TELLING
    assert all(r.runs == 2 for r in repeats[1:])


def test_few_hidden_shapes_are_timed() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    suite = hidden_suite(task, hidden_graphs(task, program, CONFIG), CONFIG)
    chosen = paced(suite, task.fingerprint)
    assert 0 < len(chosen) <= 4
    assert len({r.case.graph.fingerprint for r in chosen}) == len(chosen)
