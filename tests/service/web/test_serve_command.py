"""`kernelwright serve`, as typed."""

import json
import logging
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from kernelwright.errors import InputError, StoreError
from kernelwright.extra import missing_extra
from kernelwright.service.commands import app
from kernelwright.service.serve_command import _is_news
from kernelwright.service.web.night_export import exported_page
from kernelwright.store import KernelStore
from tests.service.web.browser import served
from tests.service.web.conftest import Filled


def error_of(*words: str) -> Exception:
    outcome = CliRunner().invoke(app, ["serve", *words])
    assert isinstance(outcome.exception, Exception)
    return outcome.exception


def test_an_exported_file_holds_the_campaign_and_no_address(filled: Filled, tmp_path: Path) -> None:
    path = tmp_path / "night.html"
    words = ["serve", "--store", filled.url, "--export", str(path)]
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    page = path.read_text(encoding="utf-8")
    held = re.search(r'<script type="application/json" id="held">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    answers = json.loads(held[1])["answers"]
    assert answers[f"/campaigns/{filled.campaign_id[:16]}"]["state"]["id"] == filled.campaign_id
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert "connect-src" not in page
    assert "default-src 'none'" in page


def test_a_server_that_others_reach_makes_up_a_token(filled: Filled) -> None:
    with served(filled.url, "--host", "0.0.0.0") as address:
        found = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/\?token=([\w-]{20,})", address)
        assert found is not None
        asked = f"http://127.0.0.1:{found[1]}/api/v1/store"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, timeout=60)
        request = urllib.request.Request(asked, headers={"Authorization": f"Bearer {found[2]}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["rows"]["task"] == 1


def test_the_printed_address_signs_in_with_any_token(filled: Filled) -> None:
    with served(filled.url, "--token", "a token & more=ü") as address:
        assert parse_qs(urlsplit(address).query) == {"token": ["a token & more=ü"]}


def test_a_short_token_is_refused(filled: Filled) -> None:
    error = error_of("--store", filled.url, "--token", "device")
    assert isinstance(error, InputError)
    assert str(error).startswith("expected a token of at least 16 characters, found 6; make one")


def test_an_exported_page_holds_what_the_api_tells(filled: Filled, client: TestClient) -> None:
    with KernelStore(filled.url, must_exist=True) as store:
        page = exported_page(store, filled.campaign_id)
    held = re.search(r'<script type="application/json" id="held">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    answers = json.loads(held[1])["answers"]
    compared = [path for path in answers if re.match("/(candidates|tasks)/", path)]
    assert compared
    for path in compared:
        assert client.get(f"/api/v1{path}").json() == answers[path], path


def test_a_port_that_is_taken_is_one_sentence(filled: Filled) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = error_of("--store", filled.url, "--port", port)
    assert isinstance(error, InputError)
    assert f"cannot listen at 127.0.0.1:{port}" in str(error)


def test_a_store_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    error = error_of("--store", str(tmp_path / "none.db"))
    assert isinstance(error, StoreError)
    assert "there is no store" in str(error)


def test_a_campaign_without_an_export_is_one_sentence(filled: Filled) -> None:
    error = error_of("--store", filled.url, "--campaign", "x")
    assert isinstance(error, InputError)
    assert "--export" in str(error)


def test_without_the_extra_the_command_names_it(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    error = error_of("--store", filled.url)
    assert isinstance(error, ImportError)
    assert "kernelwright[serve]" in str(missing_extra(error))


def test_browsers_that_leave_are_no_news() -> None:
    log = logging.getLogger("asyncio")
    left = log.makeRecord("asyncio", 30, "", 0, "socket.send() raised exception.", (), None)
    other = log.makeRecord("asyncio", 30, "", 0, "Task was destroyed but it is pending!", (), None)
    assert not _is_news(left)
    assert _is_news(other)
