"""A night of three functions that is killed at its n-th write, or goes on where one was."""

import sys
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from kernelwright.campaign import Engine, Subject, capture_subjects
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from kernelwright.store import KernelStore
from tests.campaign.scripted import MortalStore, ScriptedJudge, subjects, team


def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x))


def three_subjects() -> Sequence[Subject]:
    third = Subject("gelu", gelu, (mx.zeros((4, 8)),), {}, "mortal_night.py")
    return (*subjects(), third)


def night(store: KernelStore, judge: ScriptedJudge, spec: CampaignSpec, *, resumes: bool) -> Engine:
    return Engine(store, spec, team(), lambda: judge, RunSettings(resumes=resumes))


def spec_in(folder: Path) -> CampaignSpec:
    functions = tuple(CampaignFunction(target=s.name) for s in three_subjects())
    return CampaignSpec(
        name="nightly", functions=functions, devices=("simulator",), folder=str(folder)
    )


if __name__ == "__main__":
    url, writes, when = sys.argv[1:]
    with MortalStore(url, int(writes), after=when == "after") as store:
        spec = spec_in(Path(url).parent)
        night(store, ScriptedJudge(), spec, resumes=True).run(capture_subjects(three_subjects()))
