"""Gains of earlier campaigns: kept in the store, weighed by family, the same for a replay."""

from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.team.step_memory import StepMemory
from kernelwright.search.bandit import Credited, Step
from kernelwright.store import KernelStore
from tests.agents.loopback.scene import DEVICE

GAIN = Credited(step=Step.IDEA, model="openai:gpt-5", gain=0.5, dollars=0.1)


def begun(store: KernelStore) -> str:
    return store.begin_campaign(name="x", spec="{}", environment=environment_of(DEVICE)).id


def test_a_later_campaign_begins_with_what_an_earlier_one_learnt(store: KernelStore) -> None:
    first = StepMemory(store, begun(store))
    first.keep("rowwise", GAIN)
    assert first.about("rowwise") == ()
    later = StepMemory(store, begun(store))
    assert later.about("rowwise") == (GAIN,)
    (other,) = later.about("scan")
    assert other.weight < GAIN.weight


def test_a_replay_begins_with_what_the_replayed_campaign_began_with(store: KernelStore) -> None:
    replayed = begun(store)
    StepMemory(store, replayed).keep("rowwise", GAIN)
    again = StepMemory(store, begun(store), (replayed,))
    assert again.about("rowwise") == ()
