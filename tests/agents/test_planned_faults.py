"""A rehearsal's faults in the middle of a conversation: tool calls are lost and garbled."""

import pytest

from kernelwright.campaign import Engine, SearchSpec, capture_subjects, offline_team
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.team.model_team import open_team
from kernelwright.evaluator import Status
from kernelwright.store import KernelStore
from kernelwright.testing.fault import SabotagedClient
from kernelwright.testing.fault.plan import Fault
from kernelwright.testing.fault.sabotage import Sabotage
from tests.agents.loopback.loop import SUBJECT, Shared, statuses
from tests.agents.loopback.model import SCENARIOS
from tests.agents.loopback.partner import NAMES, QUICK
from tests.agents.loopback.server import LoopbackServer, Response, Script
from tests.agents.loopback.wire import Heard

KINDS = ("model_busy", "model_reset", "reply_lost", "network_down", "model_overloaded")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(5)
def test_a_fault_at_any_turn_of_a_conversation_loses_nothing(
    store: KernelStore, judge: Shared, provider: str, kind: str
) -> None:
    faults = [Fault.model_validate({"kind": kind, "number": n}) for n in (2, 4, 6)]
    _search(store, judge, provider, faults)
    assert statuses(store, f"{provider}:{NAMES[provider]}") == [("A slip.", Status.CORRECT)]


def test_a_garbled_tool_call_is_answered_in_words(
    store: KernelStore, judge: Shared, provider: str
) -> None:
    garbled = Fault.model_validate({"kind": "model_garbled", "number": 2})
    server = _search(store, judge, provider, [garbled])
    told = "".join(request.text for request in server.requests)
    assert "the arguments of check cannot be used" in told


def _steady(script: Script) -> Script:
    """Answer a request that comes again as before: its reply may have been lost on the way."""
    said: dict[str, Response] = {}

    def answer(request: Heard) -> Response:
        if request.body not in said:
            said[request.body] = script(request)
        return said[request.body]

    return answer


def _search(
    store: KernelStore, judge: Shared, provider: str, faults: list[Fault]
) -> LoopbackServer:
    sabotage = Sabotage(faults)
    with LoopbackServer(_steady(SCENARIOS["compile error, then fixed"]())) as server:
        spec = SearchSpec(
            models=(f"{provider}:{NAMES[provider]}",),
            base_url=server.base_url(provider),
            candidates_per_task=4,
            batch=1,
            jobs=1,
        )
        with open_team(
            store, spec, QUICK, rewire=lambda client: SabotagedClient(client, sabotage)
        ) as team_factory:
            engine = Engine(
                store, spec, offline_team(), lambda: judge, RunSettings(team_factory=team_factory)
            )
            engine.run(capture_subjects([SUBJECT]))
    return server
