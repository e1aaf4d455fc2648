"""The costs of a verdict add up over its stages, and leave nothing patched behind."""

import re

import pytest

from benchmarks.evaluator import cost
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.stages.verdict import Verdict


def test_the_seconds_of_all_stages_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Verdict.stage
    cost.main(["--smallest", "4096", "--largest", "4096", "--tasks", "softmax"])
    assert Verdict.stage is stage
    lines = capsys.readouterr().out.splitlines()
    rows = {
        found[1]: [float(number) for number in found[2].split()]
        for line in lines
        if (found := re.match(r"  (.{18})((?: +[\d.-]+)+) *$", line))
    }
    named = {name.strip(): numbers for name, numbers in rows.items()}
    parts = [named[stage.value] for stage in Stage] + [named["elsewhere"]]
    for column, whole in enumerate(named["whole"]):
        assert sum(part[column] for part in parts) == pytest.approx(whole, abs=0.2)
    assert named["references"][0] > named["references"][1], "the next candidate shares them"
