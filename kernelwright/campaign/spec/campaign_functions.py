"""The functions that a night's file names, loaded from their files."""

from pathlib import Path

from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.campaign.spec.search_target import load_subjects
from kernelwright.campaign.spec.subject import Subject
from kernelwright.campaign.spec.toml_line import line_of
from kernelwright.errors import InputError, KernelwrightError, UsageError, raise_all


def load_functions(spec: CampaignSpec) -> dict[CampaignFunction, tuple[Subject, ...]]:
    """Load every function of a search but the wanted calls, which are in the store.

    Raises:
        InputError: some are not there; says which, and where the file asks for each.
    """
    found = {}
    faults: list[InputError] = []
    for number, function in enumerate(spec.functions):
        if function.target.startswith(WANTED):
            continue
        try:
            found[function] = load_subjects(
                function.target, function.inputs, folder=Path(spec.folder)
            )
        except KernelwrightError as e:
            misuse = UsageError if isinstance(e, UsageError) else InputError
            faults.append(misuse(f"{_place(spec, number, function)}{e}"))
    raise_all(faults)
    return found


def _place(spec: CampaignSpec, number: int, function: CampaignFunction) -> str:
    """Return the file and the line that ask for a function, as long as they do."""
    try:
        text = Path(spec.file).read_text() if spec.file else ""
        line = line_of(text, ("functions", number, "target"))
    except (OSError, UnicodeDecodeError):
        return ""
    if line is None or function.target not in text.splitlines()[line - 1]:
        return ""
    return f"{spec.file}, line {line}: "
