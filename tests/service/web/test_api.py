"""The read API over a store that a real search filled."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from kernelwright.service.api.app import create_app
from kernelwright.service.api.guard import Access
from kernelwright.service.cli import main
from kernelwright.store import KernelStore
from tests.service.web.conftest import BASE, Filled

API = "/api/v1"
OWN = {"x-kernelwright": "1"}


def found(client: TestClient, path: str, **query: object) -> dict[str, object]:
    response = client.get(f"{API}{path}", params={k: str(v) for k, v in query.items()})
    assert response.status_code == 200, response.text
    told: dict[str, object] = response.json()
    return told


@pytest.fixture(scope="module")
def described(filled: Filled) -> dict[str, dict[str, Any]]:
    """Ask once for what the API says of each address."""
    with KernelStore(filled.url, must_exist=True) as store:
        client = TestClient(create_app(store, Access()), base_url=BASE)
        paths: dict[str, dict[str, Any]] = found(client, "/openapi.json")["paths"]  # type: ignore[assignment]
        return paths


def test_the_addresses_are_pinned(described: dict[str, dict[str, Any]]) -> None:
    assert {f"{way} {path.removeprefix(API)}" for path in described for way in described[path]} == {
        "get /campaigns",
        "get /campaigns/{id}",
        "get /campaigns/{id}/events",
        "get /campaigns/{id}/outlook",
        "get /campaigns/{id}/plans",
        "get /campaigns/{id}/plans/{number}.svg",
        "get /campaigns/{id}/report",
        "get /campaigns/{id}/spend",
        "get /campaigns/{id}/stream",
        "get /campaigns/{id}/tasks",
        "get /candidates",
        "get /candidates/{id}",
        "get /candidates/{id}/diff",
        "get /candidates/{id}/source",
        "get /champions",
        "get /compare",
        "get /history",
        "get /search",
        "get /store",
        "get /tasks",
        "get /tasks/{id}",
        "get /tasks/{id}/conversations",
        "get /tasks/{id}/roofline",
        "get /tasks/{id}/tree",
        "post /campaigns/{id}/pause",
        "post /campaigns/{id}/resume",
        "post /campaigns/{id}/stop",
        "post /candidates/{id}/export",
    }


def test_the_description_tells_what_an_action_needs(store: KernelStore) -> None:
    described = TestClient(create_app(store, Access(token="a-token")), base_url=BASE)
    paths = described.get(
        f"{API}/openapi.json", headers={"authorization": "Bearer a-token"}
    ).json()["paths"]
    export = paths[f"{API}/candidates/{{id}}/export"]["post"]
    given = {parameter["name"]: parameter for parameter in export["parameters"]}
    assert given["x-kernelwright"]["in"] == "header"
    assert "patch" not in given["format_name"]["schema"]["enum"]
    assert export["security"] == [{"token": []}]
    open_to_all = create_app(store, Access()).openapi()["paths"]
    assert "security" not in open_to_all[f"{API}/campaigns"]["get"]


def test_a_baseline_has_one_name_and_a_prediction_no_interval(
    client: TestClient, filled: Filled
) -> None:
    told = []
    for path in (
        "/champions",
        "/tasks",
        f"/tasks/{filled.task_id}",
        f"/campaigns/{filled.campaign_id}/tasks",
    ):
        told += [s for s in _speedups(client.get(f"{API}{path}").json()) if s]
    assert len(told) >= 4
    assert {speedup["baseline"] for speedup in told} <= {"eager MLX", "mx.compile", "mx.fast"}
    assert [s for s in told if s["kind"] == "predicted" and s["lower"] is not None] == []


def _speedups(found: object) -> Iterator[dict[str, object]]:
    if isinstance(found, dict):
        if "speedup" in found:
            yield found["speedup"]
        for value in found.values():
            yield from _speedups(value)
    elif isinstance(found, list):
        for value in found:
            yield from _speedups(value)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["best"], "/champions"),
        (["history"], "/history"),
        (["campaign", "status"], "/campaigns"),
        (["show", "{champion}"], "/candidates/{champion}"),
        (["show", "{champion}", "--conversation"], "/tasks/{task}/conversations"),
        (["campaign", "watch", "{campaign}"], "/campaigns/{campaign}/outlook"),
        (["report", "{campaign}"], "/campaigns/{campaign}/report"),
        (["store", "stats"], "/store"),
    ],
)
def test_it_answers_with_the_records_that_the_command_line_prints(
    client: TestClient,
    filled: Filled,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    path: str,
) -> None:
    names = {
        "champion": filled.champion_id,
        "task": filled.task_id,
        "campaign": filled.campaign_id,
    }
    words = [word.format(**names) for word in command]
    monkeypatch.setattr("sys.argv", ["kernelwright", *words, "--json", "--store", filled.url])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert client.get(API + path.format(**names)).json() == json.loads(capsys.readouterr().out)


def test_the_task_table_says_what_was_tried_and_won(client: TestClient, filled: Filled) -> None:
    table = client.get(f"{API}/campaigns/{filled.campaign_id[:12]}/tasks").json()
    (row,) = table["items"]
    assert table["total"] == 1
    assert row["task"]["id"] == filled.task_id
    assert row["champion_id"] == filled.champion_id
    assert row["tried"] > row["right"] > 0
    assert row["spend"]["calls"] > 0
    assert client.get(f"{API}/tasks").json()["items"] == [row]


@pytest.mark.parametrize("order", ["at", "rank", "status", "author", "idea", "task"])
def test_pages_of_candidates_join_to_the_whole_in_any_order(
    client: TestClient, filled: Filled, order: str
) -> None:
    def page(offset: int, limit: int) -> list[dict[str, object]]:
        query = {"campaign": filled.campaign_id, "order": order, "descending": False}
        told = found(client, "/candidates", **query, offset=offset, limit=limit)
        items = told["items"]
        assert isinstance(items, list)
        return items

    whole = page(0, 100)
    assert [*page(0, 2), *page(2, 2), *page(4, 100)] == whole
    keys = [e["rank"] and e["rank"]["value"] if order == "rank" else e.get(order) for e in whole]  # type: ignore[index]
    known = [key for key in keys if isinstance(key, str | float)]
    assert known == sorted(known)
    assert keys[: len(known)] == known or order == "task"


def test_candidates_are_found_by_verdict_and_by_words(client: TestClient) -> None:
    wrong = found(client, "/candidates", status="wrong")
    assert wrong["total"] == 1
    assert found(client, "/candidates", q="four a thread")["total"] == 2
    assert found(client, "/candidates", q="%")["total"] == 0


def test_the_tree_leads_from_the_first_candidates_to_their_children(
    client: TestClient, filled: Filled
) -> None:
    page = client.get(f"{API}/tasks/{filled.task_id}").json()
    tree = f"{API}/tasks/{filled.task_id}/tree"
    roots = client.get(tree).json()
    assert page["first"] == roots
    reached, waiting = [], list(roots)
    while waiting:
        node = waiting.pop()
        children = client.get(tree, params={"parent": node["id"]}).json()
        assert len(children) == node["children"]
        assert all(child["parent_id"] == node["id"] for child in children)
        waiting += children
        reached.append(node["id"])
    tried = client.get(f"{API}/candidates", params={"task": filled.task_id}).json()["items"]
    assert sorted(reached) == sorted({entry["candidate_id"] for entry in tried})
    assert page["path"][-1] == filled.champion_id


def test_a_difference_joins_to_both_sources(client: TestClient, filled: Filled) -> None:
    diff = client.get(f"{API}/candidates/{filled.child_id}/diff").json()

    def text(side: str, candidate: str) -> bool:
        shown = [
            "".join(span["text"] for span in row["line"])
            for part in diff["parts"]
            for row in part["rows"]
            if row[side] is not None
        ]
        texts = client.get(f"{API}/candidates/{candidate}/source").json()
        whole = ["".join(s["text"] for s in line) for t in texts for line in t["lines"]]
        return shown == whole

    assert text("old", diff["old_id"])
    assert text("new", diff["new_id"])
    assert diff["new_id"] == filled.child_id
    assert sum(part["added"] + part["removed"] for part in diff["parts"]) > 0


def test_every_ranked_candidate_is_a_point_below_the_roof(
    client: TestClient, filled: Filled
) -> None:
    roof = client.get(f"{API}/tasks/{filled.task_id}/roofline").json()
    assert roof["points"]
    for point in roof["points"]:
        limit = min(roof["peak_gflops"], roof["bandwidth_gb_s"] * point["intensity"])
        assert 0 < point["gflops"] < limit * 1.01
        assert point["kind"] == "predicted"
    assert any(point["is_champion"] for point in roof["points"])


def test_a_candidate_of_several_evaluations_is_one_point(
    client: TestClient, store: KernelStore, filled: Filled
) -> None:
    ranked = store.browse.evaluations(filled.task_id, limit=100)
    ids = {evaluation.candidate_id for evaluation in ranked}
    assert len(ranked) > len(ids)
    roof = client.get(f"{API}/tasks/{filled.task_id}/roofline").json()
    assert sorted(point["candidate_id"] for point in roof["points"]) == sorted(ids)
    assert roof["total"] == len(ids)


def test_a_roofline_tells_how_many_candidates_it_leaves_out(
    client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{API}/tasks/{filled.task_id}/roofline"
    whole = client.get(path).json()["total"]
    monkeypatch.setattr("kernelwright.service.api.roofline.MOST_POINTS", 1)
    cut = client.get(path).json()
    assert (len(cut["points"]), cut["total"]) == (1, whole)


def test_the_log_is_read_in_pages_by_cursors(client: TestClient, filled: Filled) -> None:
    events = f"{API}/campaigns/{filled.campaign_id}/events"
    whole = client.get(events).json()
    read: list[object] = []
    cursor = ""
    while True:
        page = client.get(events, params={"after": cursor, "limit": 3}).json()
        if not page["items"]:
            break
        read += page["items"]
        cursor = page["cursor"]
    assert read == whole["items"]
    latest = client.get(events, params={"latest": 2}).json()
    assert latest["items"] == whole["items"][-2:]
    assert latest["cursor"] == whole["cursor"] == cursor
    kinds = [event["kind"] for event in whole["items"]]
    assert kinds[0] == "CampaignBegan"
    assert kinds[-1] == "CampaignEnded"
    tried = client.get(f"{API}/campaigns/{filled.campaign_id}").json()["state"]["evaluated"]
    assert kinds.count("CandidateJudged") == tried


def test_a_plan_is_drawn_from_the_log(client: TestClient, filled: Filled) -> None:
    plans = f"{API}/campaigns/{filled.campaign_id}/plans"
    (planned,) = client.get(plans).json()
    assert planned["has_graph"]
    assert [task["id"] for task in planned["plan"]["tasks"]] == [filled.task_id]
    drawing = client.get(f"{plans}/0.svg")
    assert drawing.headers["content-type"] == "image/svg+xml"
    assert "script-src" not in drawing.headers["content-security-policy"]
    root = ElementTree.fromstring(drawing.text)
    words = " ".join(root.itertext())
    assert "double_plus_one" in words
    assert "R1" in words
    assert client.get(f"{plans}/1.svg").status_code == 404


def test_spend_adds_up_to_what_the_campaign_cost(client: TestClient, filled: Filled) -> None:
    curve = client.get(f"{API}/campaigns/{filled.campaign_id}/spend").json()
    state = client.get(f"{API}/campaigns/{filled.campaign_id}").json()["state"]
    assert curve["payments"]
    assert sum(p["dollars"] for p in curve["payments"]) == pytest.approx(state["dollars"])


def test_a_campaign_compares_with_itself_at_one(client: TestClient, filled: Filled) -> None:
    same = filled.campaign_id
    (task,) = client.get(f"{API}/compare", params={"left": same, "right": same}).json()["tasks"]
    assert task["ratio"] == 1
    assert task["left"] == task["right"]


def test_search_finds_tasks_candidates_and_campaigns(client: TestClient, filled: Filled) -> None:
    by_name = client.get(f"{API}/search", params={"q": "double"}).json()
    assert [t["task"]["id"] for t in by_name["tasks"]] == [filled.task_id]
    assert [c["id"] for c in by_name["campaigns"]] == [filled.campaign_id]
    by_id = client.get(f"{API}/search", params={"q": filled.child_id[:10]}).json()
    assert [c["candidate_id"] for c in by_id["candidates"]] == [filled.child_id]


def test_an_export_is_a_zip_of_what_the_command_writes(client: TestClient, filled: Filled) -> None:
    path = f"{API}/candidates/{filled.champion_id}/export"
    response = client.post(path, params={"slower": True}, headers=OWN)
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        names = archive.namelist()
    assert any(name.endswith("VERIFICATION.md") for name in names)
    assert any(name.endswith(".py") for name in names)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/candidates/zz", 400, "expected at least 4 hexadecimal digits"),
        ("/candidates/00000000", 404, "no candidate"),
        ("/campaigns/00000000", 404, "no campaign"),
        ("/tasks?limit=0", 422, "expected limit to be greater than or equal to 1"),
        ("/tasks?order=nonsense", 422, "expected order to be "),
        ("/campaigns/{campaign}/events?after=nonsense", 400, "expected a cursor"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_sentence(
    client: TestClient, filled: Filled, path: str, status: int, words: str
) -> None:
    response = client.get(API + path.format(campaign=filled.campaign_id))
    assert response.status_code == status
    assert words in response.json()["error"]


def test_a_living_campaign_is_paused_resumed_and_stopped(
    tmp_path: Path, filled: Filled, store: KernelStore
) -> None:
    spec = CampaignSpec(
        name="night", functions=(CampaignFunction(target="f"),), devices=("simulator",), folder="."
    )
    environment = store.campaign(filled.campaign_id).environment
    with KernelStore(str(tmp_path / "kernels.db")) as own:
        run = own.begin_campaign(name="night", spec=spec.model_dump_json(), environment=environment)
        client = TestClient(create_app(own, Access()), base_url=BASE)
        page = f"{API}/campaigns/{run.id}"

        def ask(command: str) -> int:
            return client.post(f"{page}/{command}", headers=OWN).status_code

        assert client.get(page).json()["commands"] == ["pause", "stop"]
        assert [ask("resume"), ask("pause"), ask("pause")] == [400, 200, 400]
        assert client.get(page).json()["state"]["state"] == "paused"
        assert client.get(page).json()["commands"] == ["resume", "stop"]
        assert [ask("resume"), ask("stop")] == [200, 200]
        kinds = [event.kind for event in own.events(run.id)]
    assert kinds == ["PauseAsked", "GoOnAsked", "StopAsked"]


@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
def test_a_campaign_that_is_over_takes_no_command(
    client: TestClient, filled: Filled, store: KernelStore, command: str
) -> None:
    before = store.events(filled.campaign_id)
    path = f"{API}/campaigns/{filled.campaign_id}/{command}"
    response = client.post(path, headers=OWN)
    assert response.status_code == 400
    assert "does not run: it is finished; read what it found with" in response.json()["error"]
    assert store.events(filled.campaign_id) == before


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", f"{API}/nosuch", 404, "there is nothing at /api/v1/nosuch"),
        ("GET", "/nosuch.js", 404, "there is nothing at /nosuch.js"),
        ("GET", "/assets/nosuch.js", 404, "there is nothing at"),
        ("POST", f"{API}/campaigns/x/bogus", 404, "there is nothing at"),
        ("OPTIONS", f"{API}/campaigns/x/stop", 405, "expected POST at"),
        ("DELETE", f"{API}/campaigns", 405, "expected GET at /api/v1/campaigns, found DELETE."),
        ("GET", f"{API}/campaigns/zzzz", 400, "expected at least 4 hexadecimal digits"),
        ("GET", f"{API}/campaigns/zzzz", 400, "look them up with `kernelwright campaign status`"),
        ("GET", f"{API}/campaigns/ffffffff", 404, "no campaign"),
        ("GET", f"{API}/campaigns?limit=x", 422, "limit"),
        ("GET", f"{API}/campaigns?cursor=zzz", 400, "query parameters limit, found 'cursor'"),
        ("GET", f"{API}/store?x=1", 400, "query parameters none, found 'x'"),
        ("GET", f"{API}/campaigns?limit=1&limit=2", 400, "expected limit once"),
        ("GET", f"{API}/search?q=%00", 400, "q without control codes"),
        ("GET", f"{API}/search", 422, "expected q, found none; add it"),
    ],
)
def test_every_error_is_one_sentence(
    client: TestClient,
    described: dict[str, dict[str, Any]],
    method: str,
    path: str,
    status: int,
    sentence: str,
) -> None:
    response = client.request(method, path, headers=OWN)
    assert response.status_code == status, response.text
    told = response.json()
    assert list(told) == ["error"]
    assert sentence in told["error"]
    assert str(status) in described[f"{API}/campaigns"]["get"]["responses"]


def test_every_status_that_is_answered_is_declared(
    described: dict[str, dict[str, Any]],
) -> None:
    expected = {"400", "401", "403", "404", "405", "421", "422", "500", "503"}
    for path, methods in described.items():
        for told in methods.values():
            assert expected <= set(told["responses"]), path
            assert "HTTPValidationError" not in json.dumps(told)


def test_what_failed_unexpectedly_is_one_sentence(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: KernelStore) -> None:
        raise OverflowError("secret detail")

    monkeypatch.setattr(KernelStore, "statistics", fails)
    client = TestClient(create_app(store, Access()), base_url=BASE, raise_server_exceptions=False)
    response = client.get(f"{API}/store")
    assert response.status_code == 500
    assert list(response.json()) == ["error"]
    assert "secret detail" not in response.text


@pytest.mark.parametrize("path", ["/", f"{API}/store", f"{API}/campaigns"])
def test_head_answers_as_get_without_a_body(client: TestClient, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == got.headers["content-type"]


def test_head_of_an_endless_reply_is_refused(client: TestClient, filled: Filled) -> None:
    response = client.head(f"{API}/campaigns/{filled.campaign_id}/stream")
    assert response.status_code == 405
