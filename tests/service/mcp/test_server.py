"""The tools as a client sees them: schemas, hints, errors, progress, cancellation, HTTP."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from kernelwright.errors import InputError, SearchRunsError
from kernelwright.service.mcp.argument import Session
from kernelwright.service.mcp.http import http_app
from kernelwright.service.mcp.server import build_server
from kernelwright.service.mcp.turn import in_turn
from kernelwright.service.mcp.work import Handle, Workshop

TOKEN = "a-token-of-enough-letters"
_READS = {"plan", "best", "show", "explain", "status"}
_WRITES = {"evaluate", "search", "export"}


def _talk(store: Path, talk: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(build_server(Session(store=str(store)))) as client:
            await talk(client)

    anyio.run(run)


def test_every_tool_has_a_description_an_output_schema_and_hints(tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == _READS | _WRITES
        for name, tool in tools.items():
            assert tool.description
            assert tool.output_schema is not None
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in _READS)
            if name in _WRITES:
                assert tool.annotations.destructive_hint is False

    _talk(tmp_path / "kernels.db", talk)


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("best", {}, "there is no store"),
        ("show", {"candidate": "ffff"}, "there is no store"),
        ("plan", {"target": "nowhere.py:f"}, "nowhere.py"),
        ("search", {"target": "catalog:nothing", "device": "simulator"}, "catalog"),
        (
            "evaluate",
            {"target": "catalog:softmax", "source": "out[0] = x[0];", "grid": "1,2,3,4"},
            "one to three",
        ),
        (
            "evaluate",
            {"target": "catalog:softmax", "source": "", "grid": "64"},
            "found an empty text",
        ),
        (
            "evaluate",
            {"target": "catalog:softmax", "source": "x" * 2_000_000, "grid": "64"},
            "at most 131072 characters of source, found 2000000",
        ),
        ("plan", {}, "expected target, found none; add it."),
        ("plan", {"target": 5}, "expected target to be a text, found 5."),
        ("plan", {"target": "catalog:softmax", "bogus": 1}, "found 'bogus'; leave it out."),
        ("plan", {"target": "catalog:softmax", "input": []}, "found 'input'; did you mean inputs?"),
        ("evaluate", {"target": "x", "source": "", "grid": [1024]}, "expected grid to be a text"),
        ("show", {"candidate": "f" * 300, "limit": 1}, "expected the arguments candidate of show"),
        ("nosuch", {}, "expected one of the tools"),
    ],
)
def test_an_expected_error_is_one_sentence(
    tmp_path: Path, tool: str, arguments: dict[str, object], sentence: str
) -> None:
    async def talk(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        (text,) = (block.text for block in result.content if block.type == "text")
        assert sentence in text
        assert "\n" not in text
        assert "Traceback" not in text
        assert "Error executing" not in text
        assert len(text) < 400

    _talk(tmp_path / "kernels.db", talk)


def test_an_unexpected_exception_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise OverflowError("too large\nsecond line")

    monkeypatch.setattr("kernelwright.service.mcp.store_tools.KernelStore", fails)

    async def talk(client: Client) -> None:
        result = await client.call_tool("best", {})
        assert result.is_error
        (text,) = (block.text for block in result.content if block.type == "text")
        assert text.startswith("Kernelwright failed (OverflowError: too large), which is a fault")
        assert "\n" not in text

    _talk(tmp_path / "kernels.db", talk)


def test_work_waits_while_another_process_is_at_the_same_search() -> None:
    tries: list[int] = []
    told: list[str] = []

    def work() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise SearchRunsError("the same search runs already.")
        return "judged"

    assert in_turn(work, threading.Event(), told.append) == "judged"
    assert told == ["waits: the same search runs already."]


def test_a_cancelled_call_waits_no_longer() -> None:
    def work() -> str:
        raise SearchRunsError("the same search runs already.")

    ended = threading.Event()
    ended.set()
    with pytest.raises(InputError, match="cancelled while another process"):
        in_turn(work, ended, lambda sentence: None)


def test_a_search_reports_progress_and_leaves_a_champion(tmp_path: Path, gate_file: Path) -> None:
    told: list[tuple[float, float | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async def talk(client: Client) -> None:
        arguments = {"target": f"{gate_file}:gate", "device": "simulator", "candidates": 1}
        found = await client.call_tool("search", arguments, progress_callback=tell)
        assert found.structured_content is not None, found.content
        (task,) = found.structured_content["tasks"]
        assert task["tried"] == 1
        best = await client.call_tool("best", {})
        assert best.structured_content is not None, best.content

    _talk(tmp_path / "kernels.db", talk)
    assert told[-1] == (1.0, 1.0)


def test_cancelling_a_call_ends_its_work_in_order() -> None:
    stopped = threading.Event()
    handle = Handle()
    handle.ends_by(stopped.set)
    handle.cancel()
    assert stopped.is_set()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_cancels_ends_the_work(mode: str) -> None:
    asked, ended = threading.Event(), threading.Event()
    workshop, server = Workshop(), MCPServer[None]("test")

    @server.tool()
    async def wait(context: Context) -> str:
        def work(handle: Handle) -> str:
            handle.ends_by(asked.set)
            handle.tell(0, None, "begun")
            asked.wait(60)
            ended.set()
            return "ended"

        return await workshop.make(context, work)

    async def run() -> None:
        with anyio.CancelScope() as scope:

            async def tell(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            async with Client(server, mode=mode) as client:
                await client.call_tool("wait", {}, progress_callback=tell)

    anyio.run(run)
    assert ended.wait(60)
    workshop.close()


def test_work_that_begins_after_its_cancellation_ends_at_once() -> None:
    stopped = threading.Event()
    handle = Handle()
    handle.cancel()
    handle.ends_by(stopped.set)
    assert stopped.is_set()


def _app(tmp_path: Path, host: str, token: str | None) -> ASGIApp:
    return http_app(build_server(Session(store=str(tmp_path / "kernels.db"))), host, token)


def test_http_beyond_this_machine_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"loopback address or --token, found '0\.0\.0\.0'"):
        _app(tmp_path, "0.0.0.0", None)
    with pytest.raises(InputError, match="at least 16 characters, found 5"):
        _app(tmp_path, "0.0.0.0", "short")


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}])
def test_a_request_without_the_token_is_refused(tmp_path: Path, header: dict[str, str]) -> None:
    with TestClient(_app(tmp_path, "0.0.0.0", TOKEN)) as client:
        assert client.post("/mcp", json={}, headers=header).status_code == 401


def test_a_page_of_a_stranger_cannot_reach_the_loopback_server(tmp_path: Path) -> None:
    with TestClient(_app(tmp_path, "127.0.0.1", None), base_url="http://127.0.0.1:8765") as client:
        accepted = {"accept": "application/json, text/event-stream"}
        strange = {"host": "attacker.example", **accepted}
        assert client.post("/mcp", json={}, headers=strange).status_code in (403, 421)
        assert client.post("/mcp", json={}, headers=accepted).status_code == 400
