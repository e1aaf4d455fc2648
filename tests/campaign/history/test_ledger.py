"""A campaign is replayed from all of its runs, whichever of them is named."""

from pathlib import Path

import pytest

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.session.ledger import Call, Outcome
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.history.ledger import StoreLedger, calls_to_replay
from kernelwright.store import Campaign, KernelStore
from tests.campaign.scripted import INFO


@pytest.mark.parametrize("named", [0, 1, 2])
def test_any_run_names_the_campaign_whose_replies_are_given_again(
    tmp_path: Path, named: int
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        runs = [_run(store, None)]
        runs += [_run(store, runs[0].id) for _ in range(2)]
        for number, run in enumerate(runs):
            ledger = StoreLedger(store, run.id)
            ledger.begin(_call(f"call {number}"))
            if number:
                # The first run was killed before it heard the reply.
                ledger.finish(f"call {number}", Outcome(reply=f"reply {number}"))
        replayed = calls_to_replay(store, runs[named].id)
    assert [c.reply.text for c in replayed if c.has_reply] == ["reply 1", "reply 2"]


def _call(id_: str) -> Call:
    return Call(
        id=id_,
        request_hash="0" * 64,
        purpose=Purpose(role="planner"),
        model="anthropic:claude",
        prompt=Prompt(system="s", context="c", request="r", template="t"),
        shape="",
        worst=Cost(calls=1),
    )


def _run(store: KernelStore, root_id: str | None) -> Campaign:
    run = store.begin_campaign(
        name="night",
        spec="{}",
        environment=environment_of(INFO),
        continues=lambda _: False,
        root_id=root_id,
    )
    store.end_campaign(run.id, "interrupted", elapsed_s=1.0)
    return run
