"""What machines say is written, read back, and shown as a table of agreement."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.evidence.agreement import BEGIN, END, agreement_table, with_agreement
from kernelwright.evaluator.evidence.gather import gather
from kernelwright.evaluator.evidence.record import Evidence, Machine
from kernelwright.evaluator.evidence.result import Comparison, Finding, Row


def _row(name: str, simulator: str, metal: str) -> Row:
    findings = {
        "simulator": Finding(status=simulator, summary=""),
        "metal": Finding(status=metal, summary="", measured_us=100, predicted_us=125),
    }
    return Row(name=name, kind="template", expect=("correct",), findings=findings)


def _evidence(*rows: Row, has_gpu: bool = True) -> Evidence:
    devices = ("simulator", "metal") if has_gpu else ("simulator",)
    compared = Comparison(
        devices=devices, through="determinism", subjects=len(rows), seconds=1, rows=rows
    )
    machine = Machine(
        system="Darwin 25.0",
        macos="26.1",
        processor="arm64",
        gpu="Apple M4" if has_gpu else "",
        python="3.12.1",
        mlx="0.32.0",
        kernelwright="0.2.0",
        simulator_compiler="ziglang 0.17.0",
    )
    timings = compared.model_copy(update={"devices": ("metal",)}) if has_gpu else None
    not_run = () if has_gpu else ("Apple's compiler and GPU: this machine has no Apple GPU",)
    return Evidence(machine=machine, verdicts=compared, timings=timings, not_run=not_run)


def test_a_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    evidence, path = _evidence(_row("a", "correct", "correct")), tmp_path / "m4.json"
    path.write_text(evidence.model_dump_json(exclude_defaults=True))
    assert Evidence.load(path) == evidence


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m4.json"
    path.write_text('{"rows": []}')
    with pytest.raises(InputError, match=r"holds no evidence: .* `kernelwright doctor --deep"):
        Evidence.load(path)


def test_the_table_counts_the_programs_that_agree() -> None:
    evidence = _evidence(_row("a", "correct", "correct"), _row("b", "correct", "compile_error"))
    assert evidence.disagreements > 0
    line = agreement_table([evidence]).split("\n")[-1]
    assert line == "| Apple M4, macOS 26.1, mlx 0.32.0 | 2 | 1 (50.0%) | 2 | 1.25x |"


def test_a_machine_without_a_gpu_pretends_nothing() -> None:
    table = agreement_table([_evidence(_row("a", "correct", "correct"), has_gpu=False)])
    assert "No file of an Apple GPU has been read yet" in table
    assert "the simulator alone ran. Not run: Apple's compiler and GPU" in table


def test_a_page_keeps_all_but_its_table() -> None:
    page = with_agreement(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new")
    assert page == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(InputError, match="the page must have the lines"):
        with_agreement("before", "new")


def test_the_documentation_has_the_marks() -> None:
    page = Path(__file__).parents[3] / "docs" / "evidence.md"
    with_agreement(page.read_text(), "new")


@pytest.mark.slow
def test_each_step_that_can_run_is_run() -> None:
    names = ("affine: constant", "affine: half the grid")
    evidence = gather(limit_s=600, kinds=("mutant",), only=names, timed=0)
    assert sorted(row.name for row in evidence.verdicts.rows) == sorted(names)
    assert evidence.disagreements == 0
    assert evidence.has_gpu == (not evidence.not_run)
