"""`kernelwright report`: what a campaign leaves in the morning, as one file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.printable import printable
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, ShownChipOption, StoreOption, print_json
from kernelwright.service.output_file import write_output

_MOST_CAMPAIGNS = 1000


def report(
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[CAMPAIGN]", help="An id's first digits, or a name; the latest."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page here.", show_default=False)
    ] = None,
    md: Annotated[
        Path | None, typer.Option("--md", help="Write Markdown here.", show_default=False)
    ] = None,
    chip: ShownChipOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Say what got faster, what failed, what it cost and what to do next."""
    from kernelwright.campaign.history.resuming import find_campaign, searches
    from kernelwright.campaign.report.campaign_page import as_html, as_markdown
    from kernelwright.campaign.report.report_query import report_of
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        runs = opened.campaigns(limit=_MOST_CAMPAIGNS) if campaign else searches(opened)
        found = find_campaign(runs, campaign)
        found_report = report_of(opened, found, chip)
    if json:
        print_json(found_report)
    elif html is None and md is None:
        typer.echo(printable(as_markdown(found_report)), nl=False)
    if html is not None:
        _write(html, as_html(found_report), is_quiet=json)
    if md is not None:
        _write(md, as_markdown(found_report), is_quiet=json)


def _write(path: Path, text: str, *, is_quiet: bool) -> None:
    write_output(path, text)
    if not is_quiet:
        console().print(Text.assemble(("wrote ", "label"), str(path)))
