"""One of several processes that write to a store at the same time, and what it says of it."""

import traceback
from multiprocessing.connection import Connection
from threading import Barrier

from kernelwright.evaluator import Task
from kernelwright.store import KernelStore, ModelCall, Rank
from tests.store.conftest import ENVIRONMENT, new_trial, program_of, task_of, verdict
from tests.store.test_wanting import call_of

TASK: Task = task_of((4, 8))
_PATIENCE_S = 120.0


def write(said: Connection, together: Barrier, what: str, url: str, name: str, count: int) -> None:
    """Send what was done, or the traceback of what failed, after whether it failed."""
    try:
        said.send((True, _written(together, what, url, name, count)))
    except BaseException:
        together.abort()
        said.send((False, traceback.format_exc()))


def _written(together: Barrier, what: str, url: str, name: str, count: int) -> object:
    """Do one kind of writing, begun by all processes at the same moment."""
    if what == "open":
        together.wait(_PATIENCE_S)
        KernelStore(url).close()
        return "opened"
    with KernelStore(url) as store:
        campaign = _campaign_of(store, name)
        together.wait(_PATIENCE_S)
        if what == "append":
            for i in range(count):
                store.log(campaign, "line", f"{name} {i}")
            return count
        if what == "propose":
            run = store.campaign(campaign)
            ids = [
                store.add_trial(new_trial(run, TASK, program_of(f"p {i}"))).id for i in range(count)
            ]
            return len(set(ids))
        if what == "lease":
            return _leased(store, campaign, count, together)
        if what == "record":
            return _recorded(store, campaign, name, count)
        if what == "call":
            return _called(store, campaign, name, count)
        for _ in range(count):
            store.want([call_of(2, 1), call_of(3, 1)])
        return count


def _campaign_of(store: KernelStore, name: str) -> str:
    """Use the campaign of this name, or begin one."""
    if found := [c.id for c in store.campaigns() if c.name == name.partition("/")[0]]:
        return found[0]
    return store.begin_campaign(name=name, spec="{}", environment=ENVIRONMENT).id


def _leased(store: KernelStore, campaign: str, count: int, together: Barrier) -> list[str]:
    """Lease what is free, and stay alive until all others have looked."""
    run = store.campaign(campaign)
    taken: list[str] = []
    for i in range(count):
        trial = store.add_trial(new_trial(run, TASK, program_of(f"p {i}")))
        if store.lease(trial.id):
            taken.append(trial.candidate_id)
    together.wait(_PATIENCE_S)
    return taken


def _recorded(store: KernelStore, campaign: str, name: str, count: int) -> int:
    """Record, confirm and promote, each better than the last."""
    run = store.campaign(campaign)
    for i in range(count):
        program = program_of(f"{name} {i}")
        trial = store.add_trial(new_trial(run, TASK, program))
        assert store.lease(trial.id)
        rank = Rank(kind="predicted", value=1000.0 - i)
        store.record(trial.id, verdict(TASK, program), rank=rank)
        store.beat(campaign, elapsed_s=float(i))
        store.confirm(trial.id, verdict(TASK, program), rank=rank)
    return count


def _called(store: KernelStore, campaign: str, name: str, count: int) -> int:
    for i in range(count):
        call = ModelCall(
            id=f"{name} {i}", campaign_id=campaign, provider="p", model="m", role="coder",
            request_hash="the same", request="{}",
        )  # fmt: skip
        store.dialogue.begin_call(call)
    return count
