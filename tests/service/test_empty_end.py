"""A range of sizes that begins at none: each command says that this end has no kernel."""

from pathlib import Path

import pytest

from kernelwright.service.export_source import function_targets
from kernelwright.service.redteam_command import _targets
from kernelwright.service.verify_command import _task_of
from kernelwright.store import KernelStore

INPUTS = ["f32[0..2,64]"]
SAID = "doubled computes on x (f32[0,64]), which has no elements"


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "file.py"
    file.write_text("def doubled(x):\n    return x * 2 + 1\n")
    return f"{file}:doubled"


def test_verify_says_which_end_it_leaves_out(
    target: str, empty_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _task_of(target, INPUTS, empty_store).graph.input_types[0].shape == (2, 64)
    assert SAID in capsys.readouterr().err


def test_redteam_says_which_end_it_leaves_out(
    target: str, empty_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with KernelStore(empty_store) as store:
        assert _targets([target], INPUTS, store)
    assert SAID in capsys.readouterr().err


def test_an_export_says_which_end_it_leaves_out(target: str, empty_store: str) -> None:
    said: list[str] = []
    with KernelStore(empty_store) as store:
        (found,) = function_targets(target, INPUTS, store, said.append)
    assert len(found.calls) == 2
    (sentence,) = said
    assert SAID in sentence
