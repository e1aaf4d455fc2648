"""`kernelwright serve`: the store in a browser, live."""

import logging
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from rich.text import Text

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.service.access_token import check_token
from kernelwright.service.console import console
from kernelwright.service.option import (
    JsonOption,
    StoreOption,
    Written,
    print_json,
    print_json_line,
)
from kernelwright.service.output_file import write_output

if TYPE_CHECKING:
    from kernelwright.store import KernelStore

_PORT = 8737
_SHUTDOWN_S = 1


class Served(Record):
    """A store and where a browser finds it."""

    store: str
    url: str
    """With the token that it asks for, if it asks for one."""


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 lets others in.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0 takes a free one.", show_default=True)
    ] = _PORT,
    token: Annotated[
        str,
        typer.Option(
            metavar="TOKEN",
            envvar="KERNELWRIGHT_SERVE_TOKEN",
            help="What who asks must know; elsewhere than on this machine alone one is made up.",
            show_default=False,
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A further name by which browsers may call this server; repeat.",
            show_default=False,
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE.html",
            help="Write one campaign as a file that opens without a server, and end.",
            show_default=False,
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            help="Which one to export: an id's first digits, or a name; the latest.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show the store in a browser: campaigns live and past, kernels, conversations."""
    from kernelwright.store import KernelStore

    if export is not None:
        with KernelStore(store, must_exist=True) as opened:
            _write(opened, export, campaign, as_json=json)
        return
    if campaign is not None:
        raise InputError("--campaign says what --export writes; add --export night.html.")
    import uvicorn

    from kernelwright.service.api.guard import Access, is_loopback

    if token:
        check_token(token)
    elif not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with KernelStore(store, must_exist=True) as opened:
        listening = _listen(host, port)
        port = listening.getsockname()[1]
        access = Access(host, port, token, tuple(name.lower() for name in allow_host or ()))
        served = Served(store=opened.label, url=_address(host, port, token))
        if json:
            print_json_line(served)
        else:
            _announce(served)
        from kernelwright.service.api.app import create_app

        logging.getLogger("asyncio").addFilter(_is_news)
        config = uvicorn.Config(
            create_app(opened, access),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            server_header=False,
        )
        uvicorn.Server(config).run(sockets=[listening])


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says when a browser closes a page that is still being sent."""
    return "socket.send() raised" not in record.getMessage()


def _write(store: "KernelStore", path: Path, campaign: str | None, *, as_json: bool) -> None:
    from kernelwright.campaign.history.resuming import find_campaign, searches
    from kernelwright.service.web.night_export import exported_page

    run = find_campaign(searches(store), campaign)
    page = exported_page(store, run.id)
    write_output(path, page)
    if as_json:
        print_json(Written(path=str(path)))
        return
    console().print(Text.assemble(("wrote ", "label"), str(path)), soft_wrap=True)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        # Who opens the address as soon as it is printed waits, and is not refused.
        listening.listen()
    except OSError as e:
        listening.close()
        raise InputError(
            f"cannot listen at {host}:{port} ({e.strerror or e}); choose another --port or --host."
        ) from e
    return listening


def _address(host: str, port: int, token: str) -> str:
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    query = f"?{urlencode({'token': token})}" if token else ""
    return f"http://{shown}:{port}/{query}"


def _announce(served: Served) -> None:
    printed = console()
    printed.print(Text.assemble(("serves ", "label"), served.store), soft_wrap=True)
    printed.print(Text.assemble(("open   ", "label"), (served.url, "command")), soft_wrap=True)
