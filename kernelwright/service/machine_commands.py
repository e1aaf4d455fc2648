"""`kernelwright doctor` and `devices`: what works here."""

import typer

from kernelwright.campaign.execution.machine import Finding, examine, find_devices
from kernelwright.service.console import console
from kernelwright.service.option import (
    BaseUrlOption,
    JsonOption,
    ModelOption,
    StoreOption,
    print_json,
)
from kernelwright.service.view.machine import print_devices, print_findings


def doctor(
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Say what works on this machine, and how to get what does not.

    With --model, ask each model one cheap question instead.
    """
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


def devices(json: JsonOption = False) -> None:
    """List the devices that candidates can run on."""
    found = find_devices()
    if json:
        print_json(found)
    else:
        print_devices(console(), found)
