"""`kernelwright doctor` and `devices`: what works here."""

import typer

from kernelwright.campaign.machine import Finding, examine, find_devices
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.service.view.machine import print_devices, print_findings


def doctor(store: StoreOption = None, json: JsonOption = False) -> None:
    """Say what works on this machine, and how to get what does not."""
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
