"""Every command of the command line, each imported when it is called."""

from typing import Annotated

import typer

import kernelwright
from kernelwright.service.lazy_group import CommandEntry, Entry, GroupEntry, LazyGroup
from kernelwright.service.setting_default import TAKEN, defaults_of
from kernelwright.settings_file import given_settings
from kernelwright.variable import check_variables

_SERVICE = "kernelwright.service"
_FIND, _ASK, _TAKE, _CHECK = "Find", "Ask", "Take", "Check"


def _command(target: str, panel: str | None = None, **settings: bool) -> CommandEntry:
    return CommandEntry(f"{_SERVICE}.{target}", panel, **settings)


_CAMPAIGN = {
    "init": _command("campaign_init:init"),
    "check": _command("campaign_command:check"),
    "run": _command("campaign_command:run"),
    "status": _command("campaign_control:status"),
    "watch": _command("watch_command:watch"),
    "pause": _command("campaign_control:pause"),
    "resume": _command("campaign_command:resume"),
    "stop": _command("campaign_control:stop"),
}
_STORE = {
    name: _command(f"store_group:{name}")
    for name in ("stats", "wanted", "backup", "merge", "sync", "prune", "verify")
}
_FLEET = {name: _command(f"fleet_group:{name}") for name in ("up", "status")}
_METAL = {
    name: _command(f"metal_commands:{name}") for name in ("check", "run", "sanitize", "profile")
}
COMMANDS: dict[str, Entry] = {
    "search": _command("search_command:search", _FIND),
    "tune": _command("tune_command:tune", _FIND),
    "plan": _command("plan_command:plan", _FIND),
    "catalog": _command("catalog_command:list_catalog", _FIND),
    "campaign": GroupEntry(
        "Nights over many functions, that survive whatever happens.", _CAMPAIGN, _FIND
    ),
    "worker": _command("worker_command:worker", _FIND),
    "fleet": GroupEntry("Many machines for one campaign.", _FLEET, _FIND),
    "best": _command("store_commands:best", _ASK),
    "show": _command("store_commands:show", _ASK),
    "history": _command("store_commands:history", _ASK),
    "report": _command("report_command:report", _ASK),
    "serve": _command("serve_command:serve", _ASK),
    "store": GroupEntry("The database itself.", _STORE, _ASK),
    "export": _command("export_command:export", _TAKE),
    "run": _command("run_command:run", _TAKE, passes_arguments_on=True),
    "mcp": _command("mcp_command:mcp", _TAKE),
    "bench": _command("bench_command:bench", _CHECK),
    "verify": _command("verify_command:verify", _CHECK),
    "bench-agents": _command("bench_agents_command:bench_agents", _CHECK),
    "redteam": _command("redteam_command:redteam", _CHECK),
    "doctor": _command("machine_commands:doctor", _CHECK),
    "devices": _command("machine_commands:devices", _CHECK),
    "metal": GroupEntry(
        "Metal without Metal: check, run, sanitize and profile a .metal file.", _METAL, _CHECK
    ),
}
"""The command line: names, the functions behind them, and the panel of the help page."""


class _Commands(LazyGroup):
    entries = COMMANDS


app = typer.Typer(
    name="kernelwright",
    cls=_Commands,
    help="Finds faster Metal kernels for MLX code, proves them, and hands them over.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"kernelwright {kernelwright.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Carry the options of the program itself."""
    check_variables()
    command = context.invoked_subcommand
    if command in TAKEN:
        settings = given_settings(TAKEN[command])
        context.default_map = {command: defaults_of(command, settings)} if settings else None
