"""Hand-written kernels in unusual but legal styles are accepted."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.evaluator import honest
from kernelwright.evaluator.attacks.honest import HonestKernel, written_kernels
from kernelwright.evaluator.attacks.honest.source_file import SourceFile, source_files
from kernelwright.evaluator.evaluate import Evaluator

WRITTEN = written_kernels()
SAMPLE = 29
"""Every so many run by default, the others with --slow; no divisor of what one style gives."""


@pytest.mark.parametrize("kernel", WRITTEN[::SAMPLE], ids=lambda k: k.name)
@pytest.mark.sampled(6)
def test_a_hand_written_kernel_is_right(evaluator: Evaluator, kernel: HonestKernel) -> None:
    found = evaluator.evaluate(kernel.task, kernel.program)
    assert found.is_correct, found.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", [k for i, k in enumerate(WRITTEN) if i % SAMPLE], ids=lambda k: k.name
)
def test_every_other_hand_written_kernel_is_right(
    evaluator: Evaluator, kernel: HonestKernel
) -> None:
    found = evaluator.evaluate(kernel.task, kernel.program)
    assert found.is_correct, found.summary


def test_the_hand_written_kernels_are_as_many_as_they_say() -> None:
    assert len({k.program.id for k in WRITTEN}) >= 400
    assert len(source_files()) >= 20
    assert sum(len(file.kernel) for file in source_files().values()) >= 40


def test_no_two_hand_written_kernels_are_the_same() -> None:
    assert len({(k.task.fingerprint, k.program.id) for k in WRITTEN}) == len(WRITTEN)
    assert len({k.name for k in WRITTEN}) == len(WRITTEN)


def test_fixed_and_symbolic_programs_are_both_there() -> None:
    generic = sum(k.program.is_generic for k in WRITTEN)
    assert generic >= 100
    assert len(WRITTEN) - generic >= 200


def test_a_kernel_without_a_launch_is_refused() -> None:
    with pytest.raises(ValidationError, match="launch"):
        SourceFile.model_validate(
            {
                "task": "softmax",
                "inputs": ["x: T[rows,cols]"],
                "outputs": ["y: T[rows,cols]"],
                "dtypes": ["f32"],
                "shapes": [{"rows": 1, "cols": 1}],
                "kernel": [{"style": "nothing", "launch": []}],
            }
        )


@pytest.mark.parametrize(
    "kernel", [k for k in WRITTEN if k.name.startswith("sum_squares") and "rows=5" in k.name][:2]
)
@pytest.mark.sampled(1)
def test_a_kernel_whose_result_is_one_number_is_judged(
    evaluator: Evaluator, kernel: HonestKernel
) -> None:
    assert kernel.task.graph.output_types[0].shape == ()
    found = evaluator.evaluate(kernel.task, kernel.program)
    assert found.is_correct, found.summary


def test_a_stopped_run_of_the_honest_kernels_goes_on_where_it_was(tmp_path: Path) -> None:
    arguments = ["--only", "any_row: simd_any with an early exit, i32 rows=6", "--seed", "s"]
    written = tmp_path / "honest.jsonl"
    with pytest.raises(SystemExit, match="1"):
        honest.main([*arguments, "--seconds", "0", "--jobs", "1", "--json", str(written)])
    assert not honest.read(written)
    honest.main([*arguments, "--jobs", "1", "--json", str(written)])
    lines = written.read_text()
    assert lines
    assert all(judgement.accepted for judgement in honest.read(written))
    honest.main([*arguments, "--jobs", "1", "--json", str(written)])
    assert written.read_text() == lines


def test_a_sample_is_the_same_kernels_for_one_seed_and_judged_under_all_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "honest.jsonl"
    arguments = ["--sample", "3", "--secrets", "2", "--seed", "drawn", "--jobs", "1"]
    with pytest.raises(SystemExit):
        honest.main([*arguments, "--seconds", "0", "--json", str(written)])
    assert "6 to judge" in capsys.readouterr().out
