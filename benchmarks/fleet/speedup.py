"""How much faster three workers are than one, on a campaign of many tasks."""

import os
import signal
import time
from collections.abc import Callable, Sequence

from benchmarks.fleet import scene
from kernelwright.campaign import Captured
from kernelwright.metal.diagnostic import Record
from kernelwright.store import KernelStore


class Run(Record):
    """One campaign."""

    workers: int
    tasks: int
    latency_s: float
    candidates: int
    seconds: float
    """From the campaign's begin to its end, by the store."""
    load: float
    """Of the machine, over the last minute."""


def measure(
    database: Callable[[], str],
    functions: Captured,
    counts: Sequence[int],
    latency_s: float,
    each: int,
) -> list[Run]:
    """Run the same campaign, of `each` candidates a task, with different numbers of workers."""
    runs = []
    for count in counts:
        url = database()
        workers = [scene.begin_worker(url, latency_s) for _ in range(count)]
        with KernelStore(url) as store:
            while len(store.fleet.workers()) < count:
                time.sleep(0.1)
        campaign = scene.begin_campaign(url, functions, count, each)
        code = os.waitstatus_to_exitcode(os.waitpid(campaign, 0)[1])
        for worker in workers:
            scene.end(worker, signal.SIGTERM)
        if code != scene.ENDED:
            raise RuntimeError(f"the campaign on {count} workers ended with {code}")
        with KernelStore(url) as store:
            (run,) = store.campaigns()
            tried = len(store.history(limit=100_000))
            tasks = len(store.best(limit=1000))
        runs.append(
            Run(
                workers=count,
                tasks=tasks,
                latency_s=latency_s,
                candidates=tried,
                seconds=run.elapsed_s,
                load=os.getloadavg()[0],
            )
        )
        print(f"{count} workers: {tried} candidates of {tasks} tasks in {run.elapsed_s:.1f} s")
    return runs
