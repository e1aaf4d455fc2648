"""In an ordinary night models are shown other islands, and are asked to combine them."""

import pytest

from kernelwright.store import KernelStore
from tests.agents.loopback.loop import Shared, search
from tests.agents.loopback.model import role_of, whole
from tests.agents.loopback.scene import (
    BODY,
    DONE,
    FIXED_RACE,
    FIXED_TAIL,
    QUARTER,
    draft,
    submitted,
)
from tests.agents.loopback.server import LoopbackServer, Response
from tests.agents.loopback.wire import Heard

WAYS = (
    submitted(draft(BODY, "One a thread.")),
    submitted(draft(FIXED_RACE, "Through a tile.")),
    submitted(draft(FIXED_TAIL, "Four a thread.", grid=QUARTER)),
)


@pytest.mark.parametrize("goes_on", [True, False], ids=["one conversation", "several"])
@pytest.mark.sampled(1)
def test_other_islands_are_shown_and_combined(
    store: KernelStore, judge: Shared, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool
) -> None:
    # The task is so small that its templates are at the floor, where nobody would be asked.
    for module in ("agents.roles.coder", "search.step_options"):
        monkeypatch.setattr(f"kernelwright.{module}.is_at_floor", lambda *_: False)
    ways, asked = iter(WAYS), list[str]()

    def model(request: Heard) -> Response:
        if role_of(request) == "planner":
            return whole(request)
        asked.append(request.messages[-1][1])
        is_new = len(request.messages) == 1
        return next(ways, DONE) if is_new or goes_on else DONE

    with LoopbackServer(model) as server:
        report = search(store, judge, "openai:gpt-5", server.base_url("openai"), candidates=12)
    assert report.tasks[0].tried >= 9
    combines = [text for text in asked if "keeps what is good about" in text]
    assert combines
    assert all("Right programs that go about it in another way:" in text for text in combines)
