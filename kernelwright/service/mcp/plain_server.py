"""An MCP server whose every error is one sentence, and whose tools take known arguments alone."""

import difflib
import logging
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from kernelwright.validation import sentence_of

_log = logging.getLogger(__name__)
_MOST = 80


class PlainServer(MCPServer[None]):
    """Says what was expected and found, without the words of the libraries below."""

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        context: Context[None, Any] | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: one sentence.
        """
        await self._check_names(name, arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as e:
            _log.exception("%s failed", name)
            cause = e.__cause__ or e
            first = str(cause).partition("\n")[0][:_MOST]
            raise ToolError(
                f"Kernelwright failed ({type(cause).__name__}: {first}), which is a fault of its "
                "own; the server's standard error says where."
            ) from e
        except ToolError as e:
            if isinstance(e.__cause__, ValidationError):
                raise ToolError(sentence_of(e.__cause__)) from e
            raise ToolError(str(e).removeprefix(f"Error executing tool {name}: ")) from e

    async def _check_names(self, name: str, arguments: dict[str, Any]) -> None:
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            listed = ", ".join(tools)
            raise ToolError(f"expected one of the tools {listed}, found {name[:_MOST]!r}.")
        known = tools[name].input_schema.get("properties", {})
        for given in arguments:
            if given not in known:
                close = difflib.get_close_matches(given, known, n=1)
                hint = f"did you mean {close[0]}?" if close else "leave it out."
                raise ToolError(
                    f"expected the arguments {', '.join(known)} of {name}, found "
                    f"{given[:_MOST]!r}; {hint}"
                )
