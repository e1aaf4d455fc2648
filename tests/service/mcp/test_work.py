"""What a tool's client reads of an error."""

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from kernelwright.errors import InputError
from kernelwright.service.mcp.work import _one_sentence


def test_an_error_names_arguments_and_no_flags() -> None:
    with (
        pytest.raises(ToolError, match="use format_name='cpp', or choose another `store`"),
        _one_sentence(),
    ):
        raise InputError("use --format cpp, or choose another --store.")
