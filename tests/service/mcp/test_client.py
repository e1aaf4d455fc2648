"""An MCP client plans, submits a wrong kernel, reads why, submits a right one and exports it."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

_WRONG = "uint i = thread_position_in_grid.x; out[i] = x[i] * y[i];"
_RIGHT = "uint i = thread_position_in_grid.x; out[i] = x[i] / (1.0f + exp(-y[i]));"


async def _call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    content: dict[str, Any] = result.structured_content
    return content


def test_a_client_process_corrects_its_kernel_by_the_diagnosis(
    tmp_path: Path, gate_file: Path
) -> None:
    told: list[str] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async def converse() -> None:
        command = ["-m", "kernelwright", "mcp", "--store", str(tmp_path / "kernels.db")]
        environment = {k: v for k, v in os.environ.items() if k.startswith("KERNELWRIGHT_")}
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        target = f"{gate_file}:gate"
        launch = {"target": target, "grid": "960", "device": "simulator"}
        async with Client(server) as client:
            planned = await _call(client, "plan", target=target, device="simulator")
            assert planned["functions"][0]["function"] == "gate"

            result = await client.call_tool(
                "evaluate", {**launch, "source": _WRONG}, progress_callback=tell
            )
            wrong = result.structured_content
            assert wrong is not None
            assert wrong["is_correct"] is False
            assert wrong["status"] == "wrong"
            explained = await _call(client, "explain", candidate=wrong["candidate_id"])
            assert explained["explanation"] == wrong["diagnosis"]
            assert "should be" in wrong["diagnosis"]

            right = await _call(client, "evaluate", **launch, source=_RIGHT)
            assert right["is_correct"] is True, right
            shown = await _call(client, "show", candidate=right["candidate_id"])
            assert _RIGHT in shown["kernels"][0]["source"]

            folder = tmp_path / "vendored"
            written = await _call(
                client, "export", target=right["candidate_id"], folder=str(folder), slower=True
            )
            assert written["is_verified"] is True
            assert all(Path(file).exists() for file in written["files"])
            runs = (await _call(client, "status"))["runs"]
            assert sum(run["tried"] for run in runs) == 2

    anyio.run(converse)
    assert any("wrong" in message for message in told)
