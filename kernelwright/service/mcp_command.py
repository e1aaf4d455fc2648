"""`kernelwright mcp`: the tools of a coding agent, over stdio or HTTP."""

from typing import Annotated

import typer

from kernelwright.service.option import BaseUrlOption, BudgetOption, ModelOption, StoreOption


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where HTTP listens; others need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Where HTTP listens; 0 chooses.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="KERNELWRIGHT_MCP_TOKEN",
            help="What HTTP clients must send as a bearer token.",
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    budget: BudgetOption = None,
    store: StoreOption = None,
) -> None:
    """Serve plan, evaluate, search, best, show, explain, status and export to a coding agent."""
    from kernelwright.service.mcp.argument import Session
    from kernelwright.service.mcp.http import serve_http
    from kernelwright.service.mcp.server import build_server

    server = build_server(
        Session(store=store, model=tuple(model or ()), base_url=base_url, budget=budget)
    )
    if http:
        serve_http(server, host=host, port=port, token=token)
    else:
        server.run("stdio")
