"""The MCP server; each tool is a thin door to what the command line calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from mcp.server import MCPServer

from kernelwright.service.mcp.argument import Session
from kernelwright.service.mcp.plain_server import PlainServer
from kernelwright.service.mcp.store_tools import add_store_tools
from kernelwright.service.mcp.work import Workshop
from kernelwright.service.mcp.work_tools import add_work_tools

INSTRUCTIONS = """\
Kernelwright finds and judges Metal kernels for functions of MLX arrays. On a machine without an \
Apple GPU a simulator runs them on the CPU. To write a kernel yourself: call `plan` for the \
function's graph, inputs and limits; call `evaluate` with a Metal body as `mx.fast.metal_kernel` \
takes it and its launch; read `diagnosis`, correct, and call `evaluate` again; then `export` the \
candidate. `search` lets Kernelwright write kernels itself. Times marked as predicted come from \
counted work and a chip's profile, whose costs were fitted on an H200 and are carried over to \
other chips; they are no measurement."""


def build_server(session: Session) -> MCPServer[None]:
    """Return a server whose tools work on the session's store."""
    workshop = Workshop()

    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            workshop.close()

    server = PlainServer(
        "kernelwright",
        title="Kernelwright",
        instructions=INSTRUCTIONS,
        version=version("kernelwright"),
        log_level="WARNING",
        lifespan=lifespan,
    )
    add_work_tools(server, session, workshop)
    add_store_tools(server, session)
    return server
