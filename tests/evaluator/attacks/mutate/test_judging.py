"""Mutants before the evaluator: proofs of equivalence, a sample that must be killed, the tables."""

from collections.abc import Iterator

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.mutate.base import BaseProgram, programs_of, sources
from kernelwright.evaluator.attacks.mutate.catalog import GROUPS
from kernelwright.evaluator.attacks.mutate.equivalence import machine_code
from kernelwright.evaluator.attacks.mutate.judging import Examiner
from kernelwright.evaluator.attacks.mutate.record import Outcome
from kernelwright.evaluator.attacks.mutate.sample import MUTANTS_A_PROGRAM, Share, shares
from kernelwright.evaluator.attacks.mutate.summary import Summary
from kernelwright.evaluator.attacks.mutate.survivor import (
    Explanation,
    Reason,
    explained,
    explanations,
)
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.kernel import Program

SAMPLE, TASKS, SEED = 12, 2, 11


def _edited(name: str, old: str, new: str) -> tuple[Program, Program]:
    program = bases()[name].program
    kernel = program.kernels[0]
    assert old in kernel.source
    changed = kernel.model_copy(update={"source": kernel.source.replace(old, new)})
    return program, program.model_copy(update={"kernels": (changed,)})


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("gather", "uint(t[row])", "(t[row])"),
        ("gather", "uint c =", "int c ="),
        ("gather", "y[row * 24 + c] =", "if (thread_position_in_grid.x < 24) y[row * 24 + c] ="),
        ("gather", "y[row * 24 + c] =", "if (c != 31) y[row * 24 + c] ="),
        ("project", "uint col = ", "int col = "),
        ("project", "if (lane == 0)", "if (thread_position_in_threadgroup.x == 0)"),
        ("softmax", "float peak = -INFINITY", "float peak = float(half(-INFINITY))"),
    ],
)
def test_what_no_thread_of_the_launch_can_tell_apart_is_equivalent(
    name: str, old: str, new: str
) -> None:
    base, mutant = _edited(name, old, new)
    task = task_of(name)
    code = machine_code(task, mutant, base)
    assert code is not None
    assert code == machine_code(task, base, mutant)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("gather", "y[row * 24 + c] =", "if (c != 23) y[row * 24 + c] ="),
        ("gather", "row * 24 + c]", "row * 24 + c + 1]"),
        ("argmax", "v > peak", "v >= peak"),
        ("project", "if (lane == 0)", "if (lane == 1)"),
        ("project", "uint col = ", "uchar col = "),
    ],
)
def test_what_differs_has_other_code(name: str, old: str, new: str) -> None:
    base, mutant = _edited(name, old, new)
    task = task_of(name)
    code = machine_code(task, mutant, base)
    assert code is None or code != machine_code(task, base, mutant)


def _program_of(name: str) -> tuple[Task, Program]:
    source = next(s for s in sources("small") if s.name == name and s.dtype is Dtype.FLOAT32)
    base = next(programs_of(source, np.random.default_rng(1), 1))
    return base.task, base.program


@pytest.mark.parametrize(
    ("word", "is_equivalent"), [("int", True), ("long", True), ("ushort", False)]
)
def test_positions_stay_below_what_arrays_of_2_31_elements_leave(
    word: str, is_equivalent: bool
) -> None:
    task, base = _program_of("sgd_momentum_step")
    kernel = base.kernels[0]
    old = next(line for line in kernel.source.splitlines() if line.startswith("uint "))
    source = kernel.source.replace(old, old.replace("uint", word, 1))
    mutant = base.model_copy(update={"kernels": (kernel.model_copy(update={"source": source}),)})
    codes = machine_code(task, mutant, base), machine_code(task, base, mutant)
    assert None not in codes
    assert (codes[0] == codes[1]) is is_equivalent


@pytest.mark.parametrize(
    ("new", "is_equivalent"),
    [
        ("int place = tokens_value;", True),
        ("int place = tokens_value < 1 ? tokens_value + 6 : tokens_value;", False),
        ("int place = metal::max(tokens_value, 1);", False),
    ],
)
def test_indices_need_no_wrapping_since_tasks_have_none_below_zero(
    new: str, is_equivalent: bool
) -> None:
    task, base = _program_of("embedding")
    kernel = base.kernels[0]
    old = next(line for line in kernel.source.splitlines() if line.startswith("int place ="))
    source = kernel.source.replace(old, new)
    mutant = base.model_copy(update={"kernels": (kernel.model_copy(update={"source": source}),)})
    codes = machine_code(task, mutant, base), machine_code(task, base, mutant)
    assert None not in codes
    assert (codes[0] == codes[1]) is is_equivalent


@pytest.mark.parametrize(("name", "is_equivalent"), [("gather", True), ("softmax", False)])
def test_a_threadgroup_that_a_text_does_not_see_has_any_size(
    name: str, is_equivalent: bool
) -> None:
    task, base = task_of(name), bases()[name].program
    kernels = tuple(k.model_copy(update={"threadgroup": (16, 1, 1)}) for k in base.kernels)
    mutant = base.model_copy(update={"kernels": kernels})
    codes = machine_code(task, mutant, base), machine_code(task, base, mutant)
    assert None not in codes
    assert (codes[0] == codes[1]) is is_equivalent


def test_a_mutant_that_does_not_compile_says_so() -> None:
    _, mutant = _edited("gather", "uint c =", "uint c = nonsense +")
    with pytest.raises(CompileError, match="nonsense"):
        machine_code(task_of("gather"), mutant)


@pytest.fixture(scope="module")
def examiner() -> Iterator[Examiner]:
    config = EvaluatorConfig(secret="mutants", run_timeout_s=3, through=Stage.HIDDEN)
    examiner = Examiner(lambda: Evaluator(config=config))
    yield examiner
    examiner.close()


def test_every_mutant_of_a_sample_is_killed_or_explained(examiner: Examiner) -> None:
    outcomes = list[Outcome]()
    for share in shares(SAMPLE, SEED, "small", most_sources=TASKS):
        for base, mutants in share.draw():
            if not examiner.refusal(base):
                outcomes += examiner.outcomes(base, mutants)
    summary = Summary.of(outcomes, explanations())
    assert len(outcomes) >= SAMPLE // 2
    assert summary.total.killed.total() >= len(outcomes) // 2
    assert not summary.unread, [f"{o.operator}: {o.before} -> {o.after}" for o in summary.unread]


def _ids(seed: int) -> list[str]:
    parts = (share.draw() for share in shares(30, seed, "small", most_sources=3))
    return [m.id for part in parts for _, mutants in part for m in mutants]


def test_a_sample_is_the_same_for_a_seed_and_another_for_another() -> None:
    drawn = [_ids(seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) >= 10


def test_shares_cover_every_task_in_three_dtypes_once() -> None:
    every = shares(50_000, 1, "real")
    assert sum(share.count for share in every) == 50_000
    assert len({share.source for share in every}) == len(every) == len(sources("real"))
    assert {s.dtype.short for s in sources("real") if s.dtype} >= {"f32", "f16", "bf16"}


@pytest.mark.parametrize("count", [480, 5000])
def test_mutants_share_their_base_and_as_many_tasks_as_can_be_have_one(count: int) -> None:
    every = shares(count, 1, "real")
    assert sum(share.count for share in every) == count
    assert all(share.count >= MUTANTS_A_PROGRAM for share in every)
    tasks = {source.name for source in sources("real")}
    assert len({share.source.name for share in every}) == min(len(every), len(tasks))


def test_a_share_breaks_as_few_programs_as_its_count_repays() -> None:
    source = next(s for s in sources("small") if s.name == "softmax" and s.dtype)
    drawn = list(Share(source, MUTANTS_A_PROGRAM, 1).draw())
    assert [len(mutants) for _, mutants in drawn] == [MUTANTS_A_PROGRAM]


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(InputError, match="found sofmax"):
        shares(10, 1, "small", only=frozenset({"sofmax"}))


def test_small_programs_are_of_the_catalogs_tasks_at_small_shapes() -> None:
    source = next(s for s in sources("small") if s.name == "layer_norm" and s.dtype)
    base = next(programs_of(source, np.random.default_rng(0)))
    assert base.task.graph.element_count < 1 << 12
    assert base.task.name == "layer_norm"


def test_a_base_that_is_refused_is_no_base(examiner: Examiner) -> None:
    source = next(s for s in sources("small") if s.group == "corpus" and s.name == "gather")
    _, wrong = _edited("gather", "row * 24 + c] =", "row * 24 + 23 - c] =")
    assert "wrong" in examiner.refusal(BaseProgram(source, task_of("gather"), wrong, ""))


def _outcome(**changes: object) -> Outcome:
    values = {
        "id": "0" * 16,
        "task": "softmax",
        "fingerprint": "f",
        "dtype": "f16",
        "shapes": ("f16[6,96]",),
        "schedule": "",
        "operator": "sentinel changed",
        "group": "sentinels",
        "place": "kernel 0 source:3",
        "before": "float m = -INFINITY;",
        "after": "float m = -1e9f;",
        "fate": "survived",
        **changes,
    }
    return Outcome.model_validate(values)


def test_an_explanation_covers_what_it_describes_alone() -> None:
    known = Explanation(
        operator="sentinel changed",
        dtype="f16",
        after=r".*-1e9f;",
        reason=Reason.EXACT,
        why="no half is below -1e9",
    )
    assert explained(_outcome(), (known,)) is known
    for other in ({"dtype": "f32"}, {"operator": "mask moved"}, {"after": "float m = 0.0f;"}):
        assert explained(_outcome(**other), (known,)) is None
    alone = known.model_copy(update={"id": "1" * 16})
    assert explained(_outcome(), (alone,)) is None
    assert explained(_outcome(id="1" * 16), (alone,)) is alone


def test_the_share_killed_leaves_out_what_is_equal_and_a_kernels_own_choices() -> None:
    exact = Explanation(operator="mask moved", reason=Reason.EXACT, why="the same on all inputs")
    policy = Explanation(operator="grid long", reason=Reason.POLICY, why="work may be repeated")
    killed = {"fate": "killed", "status": Status.WRONG, "stage": Stage.CORRECTNESS}
    outcomes = [
        *(_outcome(id=f"{i:016}", **killed) for i in range(7)),
        _outcome(id="a" * 16, operator="mask moved"),
        _outcome(id="b" * 16, operator="grid long"),
        _outcome(id="c" * 16),
        _outcome(id="d" * 16, fate="equivalent"),
        _outcome(id="e" * 16, fate="not compiled"),
        _outcome(id="f" * 16, operator="fast math"),
        _outcome(id="1" * 16, operator="fast function", **killed),
    ]
    summary = Summary.of(outcomes, (exact, policy))
    total = summary.total
    assert (total.killed.total(), total.equal, total.explained, total.open) == (7, 1, 1, 1)
    assert (total.proven, total.generated, total.choices) == (1, 14, {True: 1, False: 1})
    assert total.share_killed == pytest.approx(7 / 9)
    assert total.share_killed_of_unproven == pytest.approx(7 / 10)
    assert [o.id for o in summary.unread] == ["c" * 16]
    assert "| **all** | 7 | 1 | 1 | 1 | 1 | 1 |" in summary.table


def test_every_explanation_names_an_operator_and_says_why() -> None:
    assert all(e.operator in GROUPS and len(e.why) >= 10 for e in explanations())
