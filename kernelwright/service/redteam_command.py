"""`kernelwright redteam`: tries to get wrong kernels past the evaluator."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelwright.agents.budget import Caps
from kernelwright.campaign.redteam import RedTeamSpec
from kernelwright.service.console import console, error_console, print_refused
from kernelwright.service.exit_code import FAILED
from kernelwright.service.option import (
    BaseUrlOption,
    BudgetOption,
    CallsOption,
    JsonOption,
    ModelOption,
    StoreOption,
    TokensOption,
    print_json,
)
from kernelwright.service.target_argument import require_targets
from kernelwright.service.view.fitted_table import FittedTable, plain_columns

if TYPE_CHECKING:
    from kernelwright.campaign.redteam import RedTeamReport, Strike, Target
    from kernelwright.store import KernelStore

_DEFAULTS = RedTeamSpec()
_STYLES = {"refused": "good", "accepted": "quiet", "breach": "bad", "no verdict": "warn"}


def redteam(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py[:function]]...",
            help="Whose kernels to attack from: functions, as search takes them; the store's "
            "champions where none is named.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    attacks: Annotated[
        int, typer.Option(min=1, help="The most attacks that start from one kernel.")
    ] = _DEFAULTS.attacks,
    seed: Annotated[int, typer.Option(help="Draws mutants and inputs.")] = _DEFAULTS.seed,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after so long.", show_default=False)
    ] = None,
    battery_seconds: Annotated[
        float,
        typer.Option(min=1, help="The most time to try one accepted attack on other inputs."),
    ] = _DEFAULTS.battery_s,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    budget: BudgetOption = None,
    tokens: TokensOption = None,
    calls: CallsOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Try to get wrong kernels past the evaluator; what passes becomes a case for later kernels.

    A model writes the attacks; without one, mutation operators do. The exit status is 1 when the
    evaluator accepted a kernel that is shown to be wrong.
    """
    require_targets(targets or [])
    from kernelwright.campaign.redteam import run_red_team
    from kernelwright.store import KernelStore

    spec = RedTeamSpec(
        attacks=attacks,
        seed=seed,
        seconds=seconds,
        battery_s=battery_seconds,
        models=tuple(model or ()),
        base_url=base_url,
        caps=Caps(dollars=budget, tokens=tokens, calls=calls),
    )
    with KernelStore(store, must_exist=not targets) as opened:
        chosen = _targets(targets or [], inputs or [], opened)
        progress = error_console() if json else console()
        report = run_red_team(
            chosen,
            spec,
            opened,
            listen=lambda strike: progress.print(_line(strike), soft_wrap=True),
        )
    if json:
        print_json(report)
    else:
        _print(report)
    if report.breaches:
        raise typer.Exit(FAILED)


def _targets(targets: list[str], inputs: list[str], store: "KernelStore") -> "list[Target]":
    from kernelwright.campaign import capture_subjects, load_each, load_subjects
    from kernelwright.campaign.redteam import targets_from_store, targets_of
    from kernelwright.metal.device.registry import open_device
    from kernelwright.service.searched_input import searched_as

    if not targets:
        return targets_from_store(store)
    recall = partial(searched_as, store)
    subjects = load_each(targets, lambda one: load_subjects(one, inputs, recall=recall))
    captured = capture_subjects(subjects)
    print_refused(captured.refused)
    return targets_of(captured, open_device("simulator").info)


def _line(strike: "Strike") -> Text:
    where = f", {strike.stage}" if strike.stage else ""
    idea = " ".join(strike.idea.split())[:100]
    result = (strike.result, _STYLES[strike.result])
    return Text.assemble((strike.task, "task"), " ", result, where, " ", (idea, "quiet"))


def _print(report: "RedTeamReport") -> None:
    columns = plain_columns(
        *("kernels", "attacks", "refused", "accepted", "breaches", "no verdict"), justify="right"
    )
    counts = [report.count(result) for result in ("refused", "accepted", "breach", "no verdict")]
    row = [Text(str(figure)) for figure in (report.targets, len(report.strikes), *counts)]
    console().print(FittedTable(columns, [row]))
    for refusal in report.refused_targets:
        console().print(f"refused itself: {refusal}", style="warn", markup=False)
    for strike in report.breaches:
        console().print(f"{strike.task}: {strike.idea}", style="bad", markup=False)
        console().print(f"  {strike.disproof}", markup=False)
    if report.ended:
        console().print(report.ended, style="warn", markup=False)
