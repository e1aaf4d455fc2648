"""A later search of the same task goes on from the champion that the store has of it."""

import pytest

from kernelwright.store import KernelStore
from tests.agents.loopback.loop import Shared, search
from tests.agents.loopback.model import ScriptedModel, role_of, whole
from tests.agents.loopback.partner import NAMES
from tests.agents.loopback.scene import BODY, DONE, FIXED_RACE, draft, submitted
from tests.agents.loopback.server import LoopbackServer, Response
from tests.agents.loopback.wire import Heard


@pytest.fixture(autouse=True)
def _leave_room_above_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    # The task is so small that its templates are at the floor, where nobody would be asked.
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)


@pytest.mark.parametrize("candidates", [1, 4])
@pytest.mark.sampled(2)
def test_a_model_is_shown_the_stores_champion_of_the_task_itself(
    store: KernelStore, judge: Shared, provider: str, candidates: int
) -> None:
    name = f"{provider}:{NAMES[provider]}"
    with LoopbackServer(ScriptedModel(submitted(draft(BODY, "All at once.")))) as server:
        first = search(store, judge, name, server.base_url(provider), candidates=1)
    champion = first.tasks[0].champion_id
    assert champion is not None
    asked: list[str] = []

    def later(request: Heard) -> Response:
        if role_of(request) == "planner":
            return whole(request)
        asked.append(request.messages[0][1])
        return submitted(draft(FIXED_RACE, "Through a tile.")) if len(asked) == 1 else DONE

    with LoopbackServer(later) as server:
        again = search(store, judge, name, server.base_url(provider), candidates=candidates)
    assert f"`{champion[:8]}`, All at once." in asked[0]
    assert "2.0f + 1.0f" in asked[0]
    replayed = search(store, judge, f"replay:{again.campaign_id[:8]}", candidates=candidates)
    assert replayed.evaluated == 0
    tried = [
        [e.candidate_id for e in store.history(campaign=report.campaign_id)]
        for report in (again, replayed)
    ]
    assert tried[0] == tried[1]
