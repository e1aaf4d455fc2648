"""The whole verdict on the simulator: stages, words, gates, quarantine."""

import math
import os
import signal
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.agents.roles.text.feedback import diagnosis
from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.corpus import Edit, apply, bases, mutants, task_of
from kernelwright.evaluator.attacks.device import MisbehavingDevice, Misdeed
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator, evaluate
from kernelwright.evaluator.evaluation import AT_SHAPE, Evaluation, Stage, Status
from kernelwright.evaluator.oracle.reference import Reference, calibrate
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.worker import start
from kernelwright.ir import Dtype, canonicalize, capture
from kernelwright.metal.device.base import ForcedCondition
from kernelwright.metal.device.executable import RunResult
from kernelwright.metal.kernel import Kernel, Program, Tensor


def edited(base: str, *replace: tuple[str, str], **fields: object) -> Program:
    edit = {"name": "n", "class": "S1", "expect": ["wrong"], "why": "", "replace": replace}
    return apply(bases()[base].program, Edit.model_validate({**edit, **fields}))


def test_a_right_kernel_passes_every_stage_up_to_its_prediction(evaluator: Evaluator) -> None:
    found = evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert found.status is Status.CORRECT
    assert [s.stage for s in found.stages] == list(Stage)[:9]
    assert all(s.passed for s in found.stages)
    assert found.accuracy[0].row_relative <= found.accuracy[0].bound
    assert found.predicted_us
    assert {s.kind for s in found.speedups} == {"predicted"}


@pytest.mark.parametrize("base", ["layer_norm", "softmax"])
def test_the_largest_case_runs_in_five_orders(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    runs: list[tuple[Reference, int]] = []
    run = Trial.run

    def noted(
        trial: Trial,
        reference: Reference,
        *,
        seed: int = 0,
        sanitize: bool = False,
        count: bool = False,
        counts_all: bool = False,
        sampled_by: str = "",
        watch: bool = False,
        forced: tuple[ForcedCondition, ...] = (),
        timeout_s: float | None = None,
    ) -> RunResult:
        if not (sanitize or count or watch):
            runs.append((reference, seed))
        return run(
            trial,
            reference,
            seed=seed,
            sanitize=sanitize,
            count=count,
            counts_all=counts_all,
            sampled_by=sampled_by,
            watch=watch,
            forced=forced,
            timeout_s=timeout_s,
        )

    monkeypatch.setattr(Trial, "run", noted)
    evaluator.evaluate(task_of(base), bases()[base].program)
    largest = max((reference for reference, _ in runs), key=lambda r: r.elements)
    seeds = [seed for reference, seed in runs if reference is largest]
    assert len(seeds) == len(set(seeds)) == 5
    orders: dict[int, set[int]] = {}
    for reference, seed in runs:
        orders.setdefault(id(reference), set()).add(seed)
    assert sum(len(found) == 2 for found in orders.values()) >= 4, "other kinds run twice"


def test_the_same_config_gives_the_same_verdict(evaluator: Evaluator) -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    first, second = (_timeless(evaluator.evaluate(task, program)) for _ in range(2))
    assert first == second


def _timeless(evaluation: Evaluation) -> Evaluation:
    stages = tuple(s.model_copy(update={"duration_s": 0.0}) for s in evaluation.stages)
    return evaluation.model_copy(update={"duration_s": 0.0, "stages": stages})


def test_an_evaluator_that_starts_over_keeps_its_worker_and_draws_other_cases() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    with Evaluator(config=EvaluatorConfig(secret="first")) as evaluator:
        evaluator.evaluate(task, program)
        workers, first = evaluator.processes, evaluator.cases.visible(task, program)
        evaluator.start_over(EvaluatorConfig(secret="second"))
        second = evaluator.cases.visible(task, program)
        assert evaluator.evaluate(task, program).is_correct
        assert evaluator.processes == workers
    drawn = [suite.references[0].inputs[0] for suite in (first, second)]
    assert (drawn[0] != drawn[1]).any()


def test_a_wrong_answer_is_located_in_words(evaluator: Evaluator) -> None:
    tail = ("y[start + i] = ", "y[start + i] = i + 3 >= uint(width) ? 0.0f : ")
    found = evaluator.evaluate(task_of("softmax"), edited("softmax", tail))
    assert found.status is Status.WRONG
    assert found.mismatches[0].words == "the last 3 columns of every row"
    assert found.mismatches[0].expected != found.mismatches[0].found
    (given,) = found.mismatches[0].inputs
    assert (given.input, given.index) == (0, found.mismatches[0].index)


def test_unwritten_elements_are_located_in_words(evaluator: Evaluator) -> None:
    short = (
        "for (uint i = t; i < 200; i += 64) {\n  y",
        "for (uint i = t; i < 192; i += 64) {\n  y",
    )
    found = evaluator.evaluate(task_of("layer_norm"), edited("layer_norm", short))
    assert found.status is Status.UNSAFE
    assert "the last 8 columns of every row" in found.summary


def test_a_compile_error_points_at_the_candidates_line(evaluator: Evaluator) -> None:
    broken = ("float total = 0;", "float total = undeclared;")
    found = evaluator.evaluate(task_of("softmax"), edited("softmax", broken))
    assert found.status is Status.COMPILE_ERROR
    line = (
        edited("softmax", broken).kernels[0].source.split("\n").index("float total = undeclared;")
    )
    assert (found.diagnostics[0].file, found.diagnostics[0].line) == ("source", line + 1)


def test_a_wrong_kernel_is_never_timed(evaluator: Evaluator) -> None:
    mutant = next(m for m in mutants() if m.edit.class_ == "S6")
    found = evaluator.evaluate(mutant.task, mutant.program)
    assert Stage.TIMING not in {s.stage for s in found.stages}
    assert not found.speedups


@pytest.fixture(scope="module")
def strict() -> EvaluatorConfig:
    return EvaluatorConfig(secret="gate", through=Stage.CONFIRMATION, generic_shapes=4)


def test_a_right_and_faster_kernel_is_promoted(strict: EvaluatorConfig) -> None:
    found = evaluate(task_of("rotate"), bases()["rotate"].program, config=strict)
    assert found.status is Status.PROMOTED
    assert "predicted" in found.summary


def test_the_hidden_gate_says_no_and_nothing_else(strict: EvaluatorConfig) -> None:
    # Right for every width that is tried in the open, sizes of this text among them; what a loop
    # makes of a width is not followed.
    lane = "uint lane = thread_index_in_simdgroup;"
    looped = (lane, f"{lane} uint low = uint(width); for (uint j = 0; j < 1; ++j) low &= 3u;")
    odd = (
        "half(float(x[start + i]) * scale",
        "half((low != 2u || width <= 4u ? 1.0f : 2.0f) * float(x[start + i]) * scale",
    )
    found = evaluate(task_of("rms_norm"), edited("rms_norm", looped, odd), config=strict)
    assert found.status is Status.UNPROVEN
    assert not found.mismatches
    assert found.stages[-1].stage is Stage.HIDDEN
    assert "[" not in found.summary


def test_a_program_that_takes_its_worker_down_never_runs_again() -> None:
    task, program = task_of("strided"), bases()["strided"].program
    with Evaluator(MisbehavingDevice(Misdeed.ABORT), EvaluatorConfig(secret="s")) as evaluator:
        first = evaluator.evaluate(task, program)
        assert first.status is Status.CRASHED
        assert "SIGABRT" in first.summary
        assert evaluator.evaluate(task, program) is first
        # The next program gets a fresh worker, and its own verdict.
        other = evaluator.evaluate(task, edited("strided", ("p[row", "q[row")))
        assert other.status is Status.CRASHED


def test_a_program_does_not_answer_for_what_another_did_to_the_process() -> None:
    task, program = task_of("strided"), bases()["strided"].program
    with Evaluator(MisbehavingDevice(Misdeed.GRUDGE), EvaluatorConfig(secret="s")) as evaluator:
        assert evaluator.evaluate(task, program).status is Status.WRONG
        other = evaluator.evaluate(task, edited("strided", ("p[row", "q[row")))
        assert other.status is Status.WRONG


def test_a_process_that_was_interrupted_judges_nothing_more() -> None:
    endless = next(m for m in mutants() if Status.TIMEOUT in m.edit.expect)
    with Evaluator(config=EvaluatorConfig(secret="s", run_timeout_s=0.5)) as evaluator:
        assert evaluator.info.name == "simulator"
        assert evaluator.processes
        assert evaluator.evaluate(endless.task, endless.program).status is Status.TIMEOUT
        assert not evaluator.processes


def test_a_wrong_program_may_hang_at_smaller_shapes() -> None:
    task = task_of("softmax")
    wrong = (
        "/ total;",
        "/ total + 1;\nfor (uint k = 0; width < 9 && k < 2; k = k) { y[start] += k; }",
    )
    with Evaluator(config=EvaluatorConfig(secret="s", run_timeout_s=2)) as evaluator:
        found = evaluator.evaluate(task, edited("softmax", wrong))
        assert found.status is Status.WRONG, found.summary
        assert found.mismatches[0].shapes == ("f32[9,100]",)
        assert evaluator.evaluate(task, bases()["softmax"].program).is_correct


def test_a_program_that_strays_in_a_late_case_is_told_where(evaluator: Evaluator) -> None:
    task, stray = task_of("softmax"), "y[start + i + (peak > 1e3f ? 1 << 20 : 0)] = "
    program = edited("softmax", ("y[start + i] = ", stray))
    found = evaluator.evaluate(task, program)
    assert found.status is Status.UNSAFE, found.summary
    lines = program.kernels[0].source.split("\n")
    assert stray in lines[found.reports[0].line - 1]
    # Its process is none the worse for it.
    assert evaluator.evaluate(task, bases()["softmax"].program).is_correct


def test_a_worker_lost_between_two_candidates_is_nobodys_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "_RENEWAL_TIMEOUT_S", 0.1)
    task, program = task_of("softmax"), bases()["softmax"].program
    with Evaluator("simulator", EvaluatorConfig(secret="s")) as evaluator:
        assert evaluator.info.name == "simulator"
        os.killpg(evaluator.processes[0], signal.SIGSTOP)
        with pytest.raises(DeviceError, match="was lost between two candidates: no answer within"):
            evaluator.evaluate(task, program)
        monkeypatch.undo()
        assert evaluator.evaluate(task, program).is_correct


def test_a_machine_without_the_device_gives_no_verdict() -> None:
    with pytest.raises(DeviceError, match="abacus"):
        evaluate(task_of("softmax"), bases()["softmax"].program, device="abacus")


def test_a_generic_program_is_shown_wrong_at_the_smallest_shape(evaluator: Evaluator) -> None:
    found = evaluator.evaluate(
        task_of("affine"), edited("affine", ("x[i] * w[c] + b[c]", "x[i] * w[c]"))
    )
    assert found.status is Status.WRONG
    assert found.mismatches[-1].shapes == ("f32[1,1]", "f32[1]", "f32[1]")


def test_a_program_that_strays_at_another_shape_is_told_which(evaluator: Evaluator) -> None:
    stray = edited("affine", ("uint c = i % width;", "uint c = i % (width == 33 ? 33 : 99);"))
    found = evaluator.evaluate(task_of("affine"), stray)
    assert found.status is Status.UNSAFE
    before, at, shapes = found.summary.partition(AT_SHAPE)
    assert str(found.reports[0]) in before
    assert at
    assert "33]" not in shapes
    assert f"unsafe{at}{shapes.rstrip('.')}:" in diagnosis(found, stray)


@pytest.mark.parametrize(
    "edit",
    [
        ("v > peak ||", "v >= peak ||"),
        ("(metal::isnan(v) && !metal::isnan(peak))", "false"),
    ],
    ids=["ties", "NaN"],
)
def test_a_wrong_place_is_told_with_what_stands_there(
    evaluator: Evaluator, edit: tuple[str, str]
) -> None:
    found = evaluator.evaluate(task_of("argmax"), edited("argmax", edit))
    first = found.mismatches[0]
    assert first.expected is not None
    assert first.found is not None
    told = {given.index[-1]: given.value for given in first.inputs}
    right, wrong = told[int(first.expected)], told[int(first.found)]
    assert right == wrong or math.isnan(right)


@pytest.mark.parametrize(("condition", "is_right"), [("v > best", True), ("v - best > 0", False)])
def test_what_hangs_on_a_signed_overflow_is_refused(
    evaluator: Evaluator, condition: str, is_right: bool
) -> None:
    task = Task(
        canonicalize(capture(lambda x: mx.argmax(x, axis=-1), mx.zeros((6, 40), mx.int32))), "t"
    )
    kernel = Kernel(
        name="largest",
        inputs=("x",),
        outputs=("y",),
        source=f"""
uint row = thread_position_in_grid.x;
int best = x[row * 40];
uint at = 0;
for (uint i = 1; i < 40; ++i) {{
    int v = x[row * 40 + i];
    if ({condition}) {{ best = v; at = i; }}
}}
y[row] = at;
""",
        grid=(6, 1, 1),
        threadgroup=(6, 1, 1),
    )
    x = Tensor(name="x", dtype=Dtype.INT32, shape=(6, 40))
    y = Tensor(name="y", dtype=Dtype.UINT32, shape=(6,))
    found = evaluator.evaluate(task, Program(inputs=(x,), outputs=(y,), kernels=(kernel,)))
    assert found.is_correct is is_right, found.summary
    assert is_right or "a signed integer's overflow" in found.summary


def test_what_caught_one_program_is_put_to_the_next_search(evaluator: Evaluator) -> None:
    task = task_of("rotate")
    evaluator.evaluate(task, edited("rotate", ("first * c - second * s", "first * c")))
    kept = next(k for k in evaluator.regressions if k.task == task.fingerprint)
    again = EvaluatorConfig(secret="another")
    with Evaluator(config=again, regressions=[kept]) as other:
        more = other.evaluate(task, bases()["rotate"].program)
    with Evaluator(config=again) as other:
        fewer = other.evaluate(task, bases()["rotate"].program)
    assert (more.is_correct, more.cases) == (True, fewer.cases + 1)


def test_what_is_kept_later_is_put_to_the_next_program_of_the_same_search() -> None:
    task, right = task_of("rotate"), bases()["rotate"].program
    with Evaluator(config=EvaluatorConfig(secret="one")) as other:
        other.evaluate(task, edited("rotate", ("first * c - second * s", "first * c")))
        kept = next(k for k in other.regressions if k.task == task.fingerprint)
    with Evaluator(config=EvaluatorConfig(secret="two")) as other:
        before = other.evaluate(task, right)
        other.regressions.append(kept)
        after = other.evaluate(task, right)
    assert after.cases == before.cases + 1


def test_a_kept_case_keeps_the_secret_that_drew_it() -> None:
    task = task_of("rotate")
    with Evaluator(config=EvaluatorConfig(secret="one")) as other:
        other.evaluate(task, edited("rotate", ("first * c - second * s", "first * c")))
        kept = next(k for k in other.regressions if k.task == task.fingerprint)
    with Evaluator(config=EvaluatorConfig(secret="two"), regressions=[kept]) as other:
        own = other.cases.secret("visible")
        secrets = [
            other._secret_of(calibrate(kept.case, kept.case.inputs(one), task.output_tolerances))
            for one in (kept.secret, own)
        ]
    assert secrets == [kept.secret, own]


@pytest.mark.slow
def test_a_worker_finds_all_headers_even_where_nobody_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    program = bases()["softmax"].program
    relaxed = program.kernels[0].model_copy(update={"math_mode": "relaxed"})
    found = evaluate(task_of("softmax"), program.model_copy(update={"kernels": (relaxed,)}))
    assert found.is_correct, found.summary


def test_an_evaluator_that_is_closed_meanwhile_gives_no_verdict_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Evaluator("simulator") as evaluator:
        program = bases()["softmax"].program
        assert evaluator.evaluate(task_of("softmax"), program).status is Status.CORRECT
        run = Trial.run

        def closing(trial: Trial, reference: Reference, **how: object) -> RunResult:
            evaluator.close()
            return run(trial, reference, **how)  # type: ignore[arg-type]

        monkeypatch.setattr(Trial, "run", closing)
        with pytest.raises(DeviceError, match="its evaluator was closed"):
            evaluator.evaluate(task_of("softmax"), program)
        assert not evaluator.processes


def test_a_lane_with_nothing_but_minus_infinity_must_not_make_a_row_nan(
    evaluator: Evaluator,
) -> None:
    """A fully masked strip of a partly masked row: -inf minus its own maximum is NaN."""
    source = """
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
float most = -INFINITY;
for (uint c = lane; c < 1024; c += 32) {
  float value = x[row * 1024 + c];
  most = metal::isnan(value) || value > most ? value : most;
}
float total = 0.0f;
for (uint c = lane; c < 1024; c += 32) {
  total += metal::precise::exp(x[row * 1024 + c] - most);
}
bool is_nan = simd_any(metal::isnan(most));
float top = simd_max(most);
total = simd_sum(GUARD(total * metal::precise::exp(most - top)));
float found = metal::isinf(top) ? top : top + metal::precise::log(total);
if (lane == 0) {
  y[row] = is_nan ? NAN : found;
}
"""
    graph = canonicalize(capture(lambda x: mx.logsumexp(x, axis=1), mx.zeros((16, 1024))))
    x, y = (
        Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
        for name, type_ in zip("xy", (*graph.input_types, *graph.output_types), strict=True)
    )
    found: list[Status] = []
    for guard in ("most == -INFINITY ? 0.0f : ", ""):
        kernel = Kernel(
            name="log_total",
            inputs=("x",),
            outputs=("y",),
            source=source.replace("GUARD(", f"({guard}"),
            grid=(32, 16, 1),
            threadgroup=(32, 1, 1),
        )
        program = Program(inputs=(x,), outputs=(y,), kernels=(kernel,))
        found.append(evaluator.evaluate(Task(graph, "log_total"), program).status)
    assert found == [Status.CORRECT, Status.WRONG]


@pytest.mark.parametrize("is_same_judge", [True, False])
def test_a_program_that_was_just_checked_is_confirmed_from_there(is_same_judge: bool) -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    config = EvaluatorConfig(secret="s")
    confirming = config.model_copy(update={"through": Stage.CONFIRMATION})
    with Evaluator("simulator", config) as evaluator:
        screened = evaluator.evaluate(task, program)
        if not is_same_judge:
            evaluator.renew()
        evaluator.config = confirming
        found = evaluator.evaluate(task, program)
    assert found.has_passed_hidden_gate
    assert [s.stage for s in found.stages] == list(Stage)
    before, after = screened.stages[:8], found.stages[:8]
    assert (before == after) is is_same_judge, "what was checked took the time that it took"
    assert (found.cases, found.accuracy) == (screened.cases, screened.accuracy)
    assert found.predicted_us == pytest.approx(screened.predicted_us)
