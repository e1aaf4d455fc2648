"""Every command of the command line, mounted on one program."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from kernelwright.service import campaign_command, campaign_control
from kernelwright.service.bench_command import bench
from kernelwright.service.catalog_command import list_catalog
from kernelwright.service.export_command import export
from kernelwright.service.machine_commands import devices, doctor
from kernelwright.service.metal_commands import metal_group
from kernelwright.service.plan_command import plan
from kernelwright.service.redteam_command import redteam
from kernelwright.service.report_command import report
from kernelwright.service.run_command import run
from kernelwright.service.search_command import search
from kernelwright.service.store_commands import best, history, show
from kernelwright.service.store_group import store_group
from kernelwright.service.tune_command import tune
from kernelwright.service.verify_command import verify
from kernelwright.service.watch_command import watch

app = typer.Typer(
    name="kernelwright",
    help="Finds faster Metal kernels for MLX code, proves them, and hands them over.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Find": (search, tune, plan),
    "Ask": (best, show, history, report),
    "Take": (export,),
    "Check": (bench, verify, redteam, doctor, devices),
}
campaign_group = typer.Typer(
    help="Nights over many functions, that survive whatever happens.", no_args_is_help=True
)
for command in (
    campaign_command.init,
    campaign_command.check,
    campaign_command.run,
    campaign_control.status,
    watch,
    campaign_control.pause,
    campaign_command.resume,
    campaign_control.stop,
):
    campaign_group.command()(command)
for panel, commands in _COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command(
    rich_help_panel="Take",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(run)
app.command("catalog", rich_help_panel="Find")(list_catalog)
app.add_typer(campaign_group, name="campaign", rich_help_panel="Find")
app.add_typer(store_group, name="store", rich_help_panel="Ask")
app.add_typer(metal_group, name="metal", rich_help_panel="Check")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"kernelwright {version('kernelwright')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Carry the options of the program itself."""
