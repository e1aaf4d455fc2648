"""Two models in one search: the cheap one drafts, the dear one improves, and a replay does both."""

from pathlib import Path

import pytest

from kernelwright.agents.providers import key
from kernelwright.agents.providers.price import Price
from kernelwright.campaign import Engine, SearchReport, SearchSpec, capture_subjects, offline_team
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.ledger import conversations_in, recorded_calls
from kernelwright.campaign.history.resuming import handovers_of
from kernelwright.campaign.report.campaign_page import as_html, as_markdown
from kernelwright.campaign.report.report_query import report_of
from kernelwright.campaign.team.model_team import open_team
from kernelwright.errors import ModelError
from kernelwright.store import KernelStore
from tests.agents.loopback.loop import SUBJECT, Shared
from tests.agents.loopback.model import role_of, whole
from tests.agents.loopback.partner import QUICK
from tests.agents.loopback.scene import BODY, DONE, FIXED_RACE, draft, submitted
from tests.agents.loopback.server import LoopbackServer, Response
from tests.agents.loopback.wire import Heard, Said

PRICES = {
    "openai:small": Price(input=0.1, output=0.5),
    "openai:large": Price(input=5.0, output=25.0),
}


def script(request: Heard) -> Response:
    if role_of(request) == "planner":
        return whole(request)
    if len(request.messages) > 1 or role_of(request) != "coder":
        return DONE
    if request.model == "small":
        return submitted(draft(BODY, "A draft."))
    return submitted(draft(FIXED_RACE, "Through a tile."))


def run(
    store: KernelStore, judge: Shared, models: tuple[str, ...], url: str | None
) -> SearchReport:
    spec = SearchSpec(
        models=models,
        base_url=url,
        prices=PRICES,
        candidates_per_task=12,
        batch=2,
        jobs=1,
    )
    with open_team(store, spec, QUICK) as team_factory:
        engine = Engine(
            store, spec, offline_team(), lambda: judge, RunSettings(team_factory=team_factory)
        )
        return engine.run(capture_subjects([SUBJECT]))


def conversations(store: KernelStore, report: SearchReport) -> list[tuple[int, str]]:
    """Which model began which conversation with a coder."""
    calls = [c.call for c in recorded_calls(store, report.campaign_id)]
    held = [(c.purpose.conversation, c.model) for c in calls if c.purpose.role == "coder"]
    return list(dict.fromkeys(held))


def test_the_cheap_model_drafts_the_dear_one_improves_and_a_replay_asks_the_same(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The task is so small that its templates are at the floor, where nobody would be asked.
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        with LoopbackServer(script) as server:
            url = server.base_url("openai")
            report = run(store, judge, ("openai:large", "openai:small"), url)
        held = conversations(store, report)
        authors = {e.author for e in store.history(campaign=report.campaign_id)}
        monkeypatch.delenv("OPENAI_API_KEY")
        again = run(store, judge, (f"replay:{report.campaign_id[:8]}",), None)
        assert conversations(store, again) == held
    assert held[0] == (1, "openai:small")
    assert held[1][1] == "openai:large"
    assert {"openai:small", "openai:large"} <= authors


def test_a_missing_key_is_told_before_a_search_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(key, "_from_keyring", lambda provider: "")
    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        pytest.raises(ModelError, match="expected a key for openai"),
        open_team(store, SearchSpec(models=("openai:small",)), QUICK),
    ):
        pytest.fail("a search began")


REFUSAL = Said("Not this one.", stop="refused")
EMPTY = Said("", style="text")
PROSE = Said("I would keep it in registers.", style="text")


def test_replies_of_no_use_are_counted_by_cause(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    prose = {"planner": iter([PROSE]), "coder": iter([PROSE])}

    def talkative(request: Heard) -> Response:
        return next(prose.get(role_of(request), iter(())), None) or script(request)

    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        LoopbackServer(talkative) as server,
    ):
        report = run(store, judge, ("openai:large",), server.base_url("openai"))
        page = report_of(store, store.campaign(report.campaign_id))
    assert [(one.cause, one.count) for one in report.unusable] == [
        ("no tool called", 1),
        ("no valid record", 1),
    ]
    assert "openai:large 1 × no tool called, 1 × no valid record" in page.causes


def test_why_one_model_answers_instead_of_another_is_told_wherever_people_look(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    empty = iter([EMPTY])

    def reluctant(request: Heard) -> Response:
        if request.model == "large" or role_of(request) == "planner":
            return next(empty, None) or script(request)
        return REFUSAL

    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        LoopbackServer(reluctant) as server,
    ):
        models = ("openai:small", "openai:large")
        report = run(store, judge, models, server.base_url("openai"))
        page = report_of(store, store.campaign(report.campaign_id))
        notes = handovers_of(store, store.history())
        talks = conversations_in(store, report.campaign_id)
    told = (
        "double_plus_one, conversation 1: openai:large answers instead, because openai:small "
        "refused (Not this one)."
    )
    assert told in notes
    assert told in page.remarks
    assert told in as_markdown(page)
    assert told in as_html(page)
    causes = [(one.model, one.cause) for one in report.unusable]
    assert ("openai:small", "refused") in causes
    assert [cause for _, cause in causes].count("empty reply") == 1
    assert page.unusable == report.unusable
    assert "× refused" in page.causes
    assert (talks[0].purpose.role, talks[0].number) == ("planner", 0)
    assert talks[0].handovers or talks[1].handovers


def test_a_stand_in_goes_on_in_the_one_conversation(
    judge: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    bodies = iter([BODY, FIXED_RACE])

    def reluctant(request: Heard) -> Response:
        if role_of(request) == "planner":
            return whole(request)
        if request.model == "small":
            return REFUSAL
        body = next(bodies, None)
        return DONE if body is None else submitted(draft(body))

    with (
        KernelStore(str(tmp_path / "kernels.db")) as store,
        LoopbackServer(reluctant) as server,
    ):
        run(store, judge, ("openai:small", "openai:large"), server.base_url("openai"))
    asked = [r for r in server.requests if role_of(r) == "coder"]
    told = [(r.model, len(r.messages)) for r in asked]
    assert told[:4] == [("small", 1), ("large", 1), ("large", 4), ("large", 7)], told
