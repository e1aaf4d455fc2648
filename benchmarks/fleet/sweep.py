"""Kills campaigns and workers at any instant, and compares with a night in which nobody dies."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fleet import scene
from kernelwright.campaign import Captured
from kernelwright.store import KernelStore

_WORKERS = 3
_LATENCY_S = 0.05
_POLL_S = 0.05
_LIMIT_S = 600.0


@dataclass
class Tally:
    """What became of some nights."""

    nights: int = 0
    campaign_kills: int = 0
    worker_kills: int = 0
    evaluations: int = 0
    repeated: int = 0
    """Evaluations that were done more than once."""
    problems: list[str] = field(default_factory=list)


def sweep(
    database: Callable[[], str], folder: Path, functions: Captured, kills: int, seed: int
) -> Tally:
    """Let nights be killed until there were enough kills; every night has a database of its own."""
    calm_url = database()
    calm = _night(calm_url, folder / "calm.txt", functions, None, Tally())
    total = Tally()
    while total.campaign_kills + total.worker_kills < kills:
        total.nights += 1
        chance = random.Random(seed + total.nights)
        journal, before = folder / f"night-{total.nights}.txt", total.worker_kills
        killed_before = total.campaign_kills
        url = database()
        champions = _night(url, journal, functions, chance, total)
        done = Counter(line for line in journal.read_text().splitlines() if line.startswith("done"))
        deaths = total.worker_kills - before
        repeated = sum(count - 1 for count in done.values())
        total.evaluations += done.total()
        total.repeated += repeated
        # A worker may die between its verdict and the row; a campaign has at most that in flight.
        in_flight = deaths + (total.campaign_kills - killed_before)
        if repeated > in_flight:
            total.problems.append(f"night {total.nights}: {repeated} evaluated twice")
        if champions != calm:
            total.problems.append(f"night {total.nights}: other champions")
        with KernelStore(url) as store:
            total.problems += [f"night {total.nights}: {problem}" for problem in _lost(store, done)]
        print(f"night {total.nights}: {deaths} workers, {in_flight - deaths} campaigns killed")
    return total


def _lost(store: KernelStore, done: Counter[str]) -> list[str]:
    """Compare what workers did with what the store holds."""
    found = store.history(limit=10_000)
    open_ = [entry for entry in found if entry.state != "done" and entry.campaign_id
             == store.campaigns()[0].id]  # fmt: skip
    judged = {entry.candidate_id for entry in found if entry.status is not None}
    expected = len({line for line in done if not line.endswith("confirmed")})
    problems = [f"{len(open_)} trials are open"] if open_ else []
    if len(judged) != expected:
        problems.append(f"{expected} candidates were evaluated, the store knows {len(judged)}")
    return problems


def _night(
    url: str, journal: Path, functions: Captured, chance: random.Random | None, tally: Tally
) -> list[tuple[str, str]]:
    """Run a night to its end; with a chance, kill whoever it hits. Return its champions."""
    workers = [scene.begin_worker(url, _LATENCY_S, journal) for _ in range(_WORKERS)]
    campaign = scene.begin_campaign(url, functions, _WORKERS)
    begun = time.monotonic()
    next_kill = begun + (chance.uniform(2.0, 8.0) if chance else _LIMIT_S)
    try:
        while True:
            ended, status = os.waitpid(campaign, os.WNOHANG)
            if ended:
                if os.waitstatus_to_exitcode(status) != scene.ENDED:
                    tally.problems.append(f"a campaign ended with {status}")
                break
            if time.monotonic() > begun + _LIMIT_S:
                tally.problems.append("a night did not end")
                scene.end(campaign)
                break
            if chance is not None and time.monotonic() >= next_kill:
                next_kill = time.monotonic() + chance.uniform(1.0, 6.0)
                if chance.random() < 0.4:
                    scene.end(campaign)
                    tally.campaign_kills += 1
                    campaign = scene.begin_campaign(url, functions, _WORKERS)
                else:
                    which = chance.randrange(_WORKERS)
                    scene.end(workers[which])
                    tally.worker_kills += 1
                    workers[which] = scene.begin_worker(url, _LATENCY_S, journal)
            time.sleep(_POLL_S)
    finally:
        for worker in workers:
            scene.end(worker, signal.SIGKILL)
    with KernelStore(url) as store:
        return sorted((c.task.id, c.candidate_id) for c in store.best(limit=1000))
