"""Gains of earlier campaigns: kept in the store, weighed by family, the same for a replay."""

from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.history.step_memory import StepMemory
from kernelwright.campaign.report.campaign_page import as_html, as_markdown
from kernelwright.campaign.report.report_query import report_of
from kernelwright.search.step import Credited, Step
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


def test_a_report_shows_what_steps_brought_and_what_was_known_before(store: KernelStore) -> None:
    StepMemory(store, begun(store)).keep("rowwise", GAIN)
    campaign = begun(store)
    memory = StepMemory(store, campaign)
    memory.keep("rowwise", GAIN)
    memory.keep("rowwise", Credited(step=Step.TUNE, model="", gain=0.0, dollars=0.002))
    found = report_of(store, store.campaign(campaign))
    tune, idea = found.steps
    assert (tune.step, tune.here.tries, tune.before.tries) == (Step.TUNE, 1, 0)
    assert (idea.step, idea.here.tries, idea.before.tries) == (Step.IDEA, 1, 1)
    rows = (
        "| rowwise | tune | – | 1 | – | $0.002 | 0 | – | – |",
        "| rowwise | idea | openai:gpt-5 | 1 | 1.65× | $0.10 | 1 | 1.65× | $0.10 |",
    )
    assert all(row in as_markdown(found) for row in rows)
    assert as_html(found).count("<td>rowwise</td>") == 2


def test_steps_of_a_run_that_was_taken_up_count_once(store: KernelStore) -> None:
    first = begun(store)
    StepMemory(store, first).keep("rowwise", GAIN)
    later = store.begin_campaign(
        name="x", spec="{}", environment=environment_of(DEVICE), root_id=first
    ).id
    again = StepMemory(store, later, (first,))
    again.keep("rowwise", GAIN)
    assert StepMemory(store, begun(store)).about("rowwise") == (GAIN,)
