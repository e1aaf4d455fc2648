"""`kernelwright doctor` and `devices`: what works here."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.service.console import console
from kernelwright.service.option import (
    BaseUrlOption,
    JsonOption,
    ModelOption,
    StoreOption,
    print_json,
)


def doctor(
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    store: StoreOption = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Judge the corpus and the catalog's kernels on the Apple GPU."),
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Where --deep writes what it found.")] = Path(
        "evidence.json"
    ),
    limit_s: Annotated[
        float, typer.Option("--limit-s", min=1, help="When --deep begins no further program.")
    ] = 1800.0,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Parts of names that --deep judges.")
    ] = None,
    require_gpu: Annotated[
        bool, typer.Option("--require-gpu", help="Fail --deep where there is no Apple GPU.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Say what works on this machine, and how to get what does not.

    With --model, ask each model one cheap question instead. With --deep, judge many kernels on the
    Apple GPU and the simulator, and write one file of what they say; exit 1 where they disagree.
    """
    from kernelwright.campaign.execution.machine import Finding, examine
    from kernelwright.service.view.machine import print_findings

    if deep:
        _deep(out, limit_s, tuple(only or ()), require_gpu=require_gpu, json=json)
        return
    if model:
        # The clients of all providers come with it.
        from kernelwright.agents.roles.model_check import doctor_model

        reports = [doctor_model(name, base_url) for name in model]
        if json:
            print_json(reports)
        else:
            for report in reports:
                console().print(report.sentence, highlight=False)
        return
    findings: list[Finding] = list(examine(store))
    if json:
        print_json(findings)
    else:
        print_findings(console(), findings)
    if any(finding.is_needed and not finding.works for finding in findings):
        raise typer.Exit(1)


def _deep(
    out: Path, limit_s: float, only: tuple[str, ...], *, require_gpu: bool, json: bool
) -> None:
    # The evaluator and the catalog are much to import for the other answers.
    from kernelwright.evaluator.evidence.gather import gather

    def tell(count: int) -> None:
        if not json and count % 50 == 0:
            console().print(f"{count} judged", style="quiet")

    evidence = gather(limit_s=limit_s, only=only, tell=tell)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{out} cannot be written: {e.strerror}; choose another --out.") from e
    write_file(out, evidence.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    if json:
        print_json(evidence)
    else:
        for comparison in (evidence.verdicts, evidence.timings):
            if comparison is not None:
                console().print(comparison.table(), highlight=False, markup=False)
        for step in evidence.not_run:
            console().print(f"not run: {step}", highlight=False, markup=False)
        console().print(f"written: {out}", highlight=False)
    if evidence.disagreements or (require_gpu and not evidence.has_gpu):
        raise typer.Exit(1)


def devices(json: JsonOption = False) -> None:
    """List the devices that candidates can run on."""
    from kernelwright.campaign.execution.device_finding import find_devices
    from kernelwright.service.view.machine import print_devices

    found = find_devices()
    if json:
        print_json(found)
    else:
        print_devices(console(), found)
