"""`kernelwright bench`: times of this machine, predictions apart, and JSON of both."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.service.commands import app
from kernelwright.service.console import result_console
from kernelwright.service.view.benchmark import FunctionBenchmark

_FILE = """
import mlx.core as mx
import kernelwright as kw


@kw.example("f32[16,64]")
def smooth(x):
    return mx.softmax(mx.where(x > 0, x * 2, -1e9), axis=-1) * 0.9 + 0.1
"""
_SHORT = ("--rounds", "5", "--seconds", "0.1")


def _run(*arguments: str, columns: str = "120") -> str:
    result_console.cache_clear()
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "smooth.py"
    path.write_text(_FILE)
    return path


def test_measured_and_predicted_times_never_share_a_ratio(file: Path, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "k.db"), "--device", "simulator")
    target = f"{file}:smooth"
    before = _run("bench", target, *_SHORT, *store)
    assert f"kernelwright search {target}" in before
    assert not (tmp_path / "k.db").exists()
    _run("search", target, "--candidates", "2", "-q", *store)
    (row,) = json.loads(_run("bench", target, *_SHORT, "--json", *store))
    told = FunctionBenchmark.model_validate(row)
    assert told.measured.gain is None
    assert "CPU" in told.measured.chip
    assert told.predicted is not None
    assert told.predicted.kind == "predicted"
    best = json.loads(_run("best", "--json", *store[:2]))
    assert row["predicted"] == best[0]["gain"]
    text = _run("bench", target, *_SHORT, *store, columns="80")
    assert "MLX without a GPU" in text
    assert f"predicted  {told.predicted.times}" in text
    assert "ours not timed: this machine has no GPU" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_chip_chooses_whose_time_is_predicted_and_inputs_are_repeated_in_the_hint(
    file: Path, tmp_path: Path
) -> None:
    url = ("--store", str(tmp_path / "none.db"), "--device", "simulator")
    text = _run("bench", f"{file}:smooth", "-i", "f32[8,32]", *_SHORT, *url)
    assert f"kernelwright search {file}:smooth -i 'f32[8,32]'" in "".join(text.splitlines())


def test_a_ready_task_keeps_its_dtype_in_the_hint(tmp_path: Path) -> None:
    url = ("--store", str(tmp_path / "none.db"), "--device", "simulator")
    text = _run("bench", "catalog:softmax:f16", "-i", "f16[8,32]", *_SHORT, *url)
    assert "kernelwright search catalog:softmax:f16 -i 'f16[8,32]'" in "".join(text.splitlines())


def test_work_on_a_stream_of_the_cpu_is_timed_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "streams.py"
    file.write_text(
        "import mlx.core as mx\ndef mixed(x):\n"
        "    return mx.softmax(mx.exp(x, stream=mx.cpu) * 2, axis=-1)\n"
    )
    line = ["bench", f"{file}:mixed", "-i", "f32[8,32]", *_SHORT]
    line += ["--store", str(tmp_path / "none.db"), "--device", "simulator"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert "MLX's times are of the GPU" not in result.output
