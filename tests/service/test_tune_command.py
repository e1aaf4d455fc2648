"""`tune` records and reports, `run` installs kernels in a program that nobody edits."""

import json
import sys
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm import utils
from typer.testing import CliRunner

from kernelwright.errors import InputError
from kernelwright.service.commands import app

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 1100,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    mx.set_default_device(mx.cpu)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    return str(file)


def invoke(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    return found.exit_code, found.output


@pytest.mark.parametrize("text", ["x = 1", '{"model_type": "llama"}', "[1]", ""])
def test_a_trace_replaces_no_other_file(config: str, tmp_path: Path, text: str) -> None:
    other = tmp_path / "own.py"
    other.write_text(text)
    with pytest.raises(InputError, match="is no workload trace and stays as it is"):
        invoke("tune", config, "--prompt", "8", "--record", str(other))
    assert other.read_text() == text


def test_a_trace_is_recorded_and_looked_at_elsewhere(config: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    code, said = invoke("tune", config, "--prompt", "8", "--record", str(trace))
    assert code == 0
    assert "search it with" in said
    store = str(tmp_path / "k.db")
    code, said = invoke("tune", str(trace), "--candidates", "0", "--store", store)
    assert code == 0
    assert "matmul+swiglu" in said


def test_installing_alone_compares_the_tokens(config: str, tmp_path: Path) -> None:
    words = ("--prompt", "8", "--tokens", "4", "--prompts", "1", "--candidates", "0", "--json")
    where = ("--store", str(tmp_path / "none.db"), "--device", "simulator", "-q")
    code, said = invoke("tune", config, *words, *where)
    assert code == 0
    report = json.loads(said)
    assert report["sameness"]["identical"] == 1
    assert report["speed"] is None


@pytest.mark.slow
def test_what_was_searched_runs_in_the_model(config: str, tmp_path: Path) -> None:
    words = ("--prompt", "8", "--tokens", "4", "--prompts", "1", "--candidates", "1", "--json")
    where = ("--store", str(tmp_path / "k.db"), "--device", "simulator", "-q", "--tasks", "2")
    code, said = invoke("tune", config, *words, *where)
    report = json.loads(said[said.index("{") :])
    assert code == 0
    assert [task["champion_id"] is not None for task in report["search"]["tasks"]] == [True, True]
    assert report["sameness"]["identical"] == 1
    assert not report["sameness"]["same_bits"]


def test_a_program_is_run_with_its_own_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(utils, "load_model", utils.load_model)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, mlx_lm.utils as utils\n"
        "print(sys.argv[1:], utils.load_model.__wrapped__ is not None)\n"
    )
    code, said = invoke("run", "--store", "none.db", "--", str(program), "--model", "x")
    assert code == 0
    assert "['--model', 'x'] True" in said


def test_a_file_that_is_no_text_is_answered_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe")
    done = CliRunner().invoke(app, ["tune", str(path)])
    assert isinstance(done.exception, InputError)
    assert "cannot be read as a configuration" in str(done.exception)


def test_a_model_that_mlx_cannot_run_here_is_answered_in_one_sentence(tmp_path: Path) -> None:
    mx.set_default_device(mx.cpu)
    path = tmp_path / "config.json"
    experts = {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "max_position_embeddings": 64,
        "norm_topk_prob": True,
    }
    path.write_text(json.dumps(CONFIG | experts))
    done = CliRunner().invoke(app, ["tune", str(path), "--prompt", "4"])
    assert isinstance(done.exception, InputError)
    assert "does not run on this machine: [GatherMM::eval]" in str(done.exception)
    assert "--record trace.json" in str(done.exception)
