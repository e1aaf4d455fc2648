"""Every command of the command line runs as the documents show it, in one user's day."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.service.cli import main
from kernelwright.service.commands import COMMANDS
from kernelwright.service.lazy_group import GroupEntry
from kernelwright.store import KernelStore

_ROOT = Path(__file__).parents[2]
_FILES = {
    "attention.py": (
        "import mlx.core as mx\n\n"
        "def masked_softmax(scores, mask):\n"
        "    scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)\n"
        "    return mx.softmax(scores, axis=-1)\n"
    ),
    "night.toml": (
        '[campaign]\nname = "short"\ncandidates = 1\njobs = 1\n\n'
        '[[functions]]\ntarget = "attention.py"\ninputs = ["f16[4,64,64]", "bool[64,64]"]\n'
    ),
    "twice.metal": (
        "#include <metal_stdlib>\nusing namespace metal;\n\n"
        "kernel void twice(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],\n"
        "                  uint i [[thread_position_in_grid]]) { y[i] = 2.0f * x[i]; }\n"
    ),
    "config.json": (
        '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 100, '
        '"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, '
        '"rms_norm_eps": 1e-5}\n'
    ),
    "program.py": 'print("a program")\n',
}
_DAY = """
doctor
devices
catalog
plan attention.py -i "f16[4,64,64]" -i "bool[64,64]" --chip m4-pro
search attention.py -i "f16[4,64,64]" -i "bool[64,64]" --device simulator --candidates 2
best --op softmax
history --status correct
show ID
show ID --json
verify ID --device simulator
export attention.py:masked_softmax -o vendored/
export ID -o alone/ --slower
bench attention.py -i "f16[4,64,64]" -i "bool[64,64]"
campaign init nightly.toml
campaign check night.toml
campaign run night.toml --quiet
campaign status
campaign watch --once
report --html report.html
serve --export page.html
store stats
store wanted
store backup copy.db
store merge kernels.db copy.db -o merged.db
store sync copy.db
store prune --days 30 --dry-run
store verify --device simulator
run program.py
tune config.json --prompt 8 --record trace.json
redteam --attacks 1 --seconds 1
metal check twice.metal
metal run twice.metal --grid 64 -b "x=f32[64]" -b "y=f32[64]"
metal sanitize twice.metal --grid 64 -b "x=f32[64]" -b "y=f32[64]"
metal profile twice.metal --grid 64 -b "x=f32[64]" -b "y=f32[64]"
"""
_REFUSED = """
campaign pause
campaign stop
campaign resume
worker
fleet status
"""
"""Of a campaign that is over, and of a store that no fleet shares.

`tests/service/test_campaign_command.py` pauses a campaign that runs.
"""
_ELSEWHERE = {
    "mcp": "tests/service/mcp/test_client.py",
    "fleet up": "tests/service/test_fleet_group.py",
    "bench-agents": "tests/agents/bench/test_yardstick.py",
}
"""Commands that need a model or several processes, and where they are tried."""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _commands() -> Iterator[str]:
    for name, entry in COMMANDS.items():
        if isinstance(entry, GroupEntry):
            yield from (f"{name} {inner}" for inner in entry.commands)
        else:
            yield name


def test_every_command_is_tried() -> None:
    tried = [*_lines(_DAY), *_lines(_REFUSED)]
    for command in _commands():
        is_here = any(line == command or line.startswith(f"{command} ") for line in tried)
        if not is_here:
            text = (_ROOT / _ELSEWHERE[command]).read_text(encoding="utf-8")
            assert all(f'"{word}"' in text for word in command.split()), command


@pytest.mark.slow
def test_a_day_with_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "kernels.db"))
    for name, text in _FILES.items():
        Path(name).write_text(text)

    def typed(line: str) -> tuple[int, str]:
        if "ID" in line:
            with KernelStore(str(tmp_path / "kernels.db")) as store:
                line = line.replace("ID", store.best(limit=1)[0].candidate_id)
        monkeypatch.setattr(sys, "argv", ["kernelwright", *shlex.split(line)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capfd.readouterr().err

    ended = {line: typed(line) for line in _lines(_DAY)}
    # Off a Mac the doctor misses its tools, and says so.
    ended.pop("doctor")
    assert {line: said for line, said in ended.items() if said[0] != 0} == {}
    for line in _lines(_REFUSED):
        code, said = typed(line)
        assert (code, said.count("\n")) == (1, 1), said
