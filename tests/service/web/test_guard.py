"""Who may ask the server, and what a browser may do with what it gets."""

import json
import re
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from kernelwright.service.api.app import create_app
from kernelwright.service.api.guard import Access
from kernelwright.service.api.secret import Redactor
from kernelwright.store import KernelStore
from tests.service.web.conftest import BASE, Filled

TOKEN = "a-token-of-24-characters"
Ask = Callable[..., TestClient]


@pytest.fixture
def ask(store: KernelStore) -> Ask:
    def make(base: str = BASE, **access: object) -> TestClient:
        app = create_app(store, Access(**access))  # type: ignore[arg-type]
        return TestClient(app, base_url=base, follow_redirects=False)

    return make


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/api/v1/tasks", "/api/v1/nowhere"])
def test_every_reply_is_guarded(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_the_page_needs_no_inline_script_and_no_other_host(client: TestClient) -> None:
    page = client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\bon\w+=|\bstyle=", page)
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    for link in links:
        assert link.startswith(("/", "#"))
        if link.startswith("/"):
            assert client.get(link).status_code == 200


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        ("127.0.0.1:8737", True),
        ("localhost:8737", True),
        ("[::1]:8737", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("192.168.0.7:8737", False),
        ("", False),
    ],
)
def test_a_server_on_loopback_answers_to_its_own_names_only(
    client: TestClient, host: str, is_answered: bool
) -> None:
    status = client.get("/api/v1/tasks", headers={"host": host}).status_code
    assert status == (200 if is_answered else 421)


def test_a_server_that_others_reach_answers_to_addresses_and_given_names(ask: Ask) -> None:
    server = ask(host="0.0.0.0", token=TOKEN, names=("gpu.lan",))
    bearer = {"authorization": f"Bearer {TOKEN}"}
    for host, status in (("192.168.0.7:8737", 200), ("gpu.lan", 200), ("evil.example", 421)):
        assert server.get("/api/v1/tasks", headers={"host": host, **bearer}).status_code == status


def test_without_its_token_a_server_says_nothing(ask: Ask) -> None:
    server = ask(token=TOKEN)
    for path in ("/", "/api/v1/tasks", "/api/v1/openapi.json", "/assets/app.js"):
        response = server.get(path)
        assert response.status_code == 401
        assert TOKEN not in response.text
    for given in ("wrong", "", TOKEN[:-1], TOKEN + "x"):
        bearer = {"authorization": f"Bearer {given}"}
        assert server.get("/api/v1/tasks", headers=bearer).status_code == 401
        assert server.get("/", params={"token": given}).status_code == 401


def test_a_browser_gives_the_token_once_and_keeps_a_cookie(ask: Ask) -> None:
    server = ask(token=TOKEN)
    signed_in = server.get("/", params={"token": TOKEN, "x": "1"})
    assert signed_in.status_code == 303
    assert signed_in.headers["location"] == "/?x=1"
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert server.get("/api/v1/tasks").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-kernelwright": "1", "origin": "http://evil.example"},
        {"x-kernelwright": "1", "sec-fetch-site": "cross-site"},
        {"x-kernelwright": "1", "sec-fetch-site": "same-site"},
        {"origin": BASE},
    ],
)
def test_no_other_page_may_ask_for_anything(
    client: TestClient, filled: Filled, headers: dict[str, str]
) -> None:
    for path in (f"/campaigns/{filled.campaign_id}/stop", f"/candidates/{filled.child_id}/export"):
        assert client.post(f"/api/v1{path}", headers=headers).status_code == 403


def test_no_other_page_may_read(client: TestClient) -> None:
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/v1/tasks", headers=foreign).status_code == 403


def test_a_program_with_the_token_needs_no_header(ask: Ask, filled: Filled) -> None:
    server = ask(token=TOKEN)
    path = f"/api/v1/campaigns/{filled.campaign_id}/stop"
    assert server.post(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 400


def test_no_reply_holds_a_secret(
    store: KernelStore, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What stands in the store already, so that every reply that tells it would tell the secret.
    (idea,) = {e.idea for e in store.history(candidate=filled.child_id)}
    monkeypatch.setenv("OPENAI_API_KEY", idea)
    server = TestClient(create_app(store, Access()), base_url=BASE)
    paths = [
        f"/candidates/{filled.child_id}",
        f"/tasks/{filled.task_id}",
        f"/tasks/{filled.task_id}/conversations",
        f"/tasks/{filled.task_id}/roofline",
        "/history",
        "/candidates",
        f"/search?q={filled.child_id[:12]}",
        f"/campaigns/{filled.campaign_id}/report",
    ]
    for path in paths:
        response = server.get(f"/api/v1{path}")
        assert response.status_code == 200
        response.json()
        assert idea not in response.text
        assert json.dumps(idea)[1:-1] not in response.text


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("at postgresql://me:pa55word@db:5432/x", "pa55word"),
        ("see http://user:s3cret@models.lan/v1", "s3cret"),
        ('the key "q\\u0022u" it has', 'q"u'),
        ("a \\ble key", "a \\ble key"),
        ("12345", "12345"),
    ],
)
def test_secrets_are_hidden_in_strings_and_json_stays_json(said: str, hidden: str) -> None:
    text = json.dumps({"said": said, "figure": 12345})
    told = json.loads(Redactor(('q"u', "a \\ble key", "12345", "q\\u0022u")).in_json(text))
    assert hidden not in told["said"] or hidden == 'q"u'
    assert told["figure"] == 12345
