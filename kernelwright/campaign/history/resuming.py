"""Runs of one campaign: which is alive, which was left behind, and how to stop or take one up."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from kernelwright.campaign.event import CampaignBegan, CampaignEnded, Event, ModelRemarked
from kernelwright.campaign.history.larger_caps import LargerCaps, larger_cap
from kernelwright.campaign.history.pausing import GO_ON, PAUSE, Pause, is_paused
from kernelwright.campaign.spec.campaign_spec import CampaignSpec
from kernelwright.campaign.spec.spec_reading import campaign_spec_of, search_spec_of
from kernelwright.errors import InputError, StoreError
from kernelwright.evaluator.evaluation import Status
from kernelwright.store import Campaign, HistoryEntry, KernelStore, LoggedEvent
from kernelwright.store import owner as store_owner
from kernelwright.store.owner import Owner
from kernelwright.validation import shown

_MOST_CAMPAIGNS = 1000
_LOOK_S = 1.0
STOP = "StopAsked"
"""The kind of the line in a run's log that asks it to end."""


def nights(store: KernelStore) -> list[Campaign]:
    """Return the runs of campaigns, newest first; plain searches are none."""
    return [c for c in store.campaigns(limit=_MOST_CAMPAIGNS) if campaign_spec_of(c) is not None]


def is_alive(campaign: Campaign) -> bool:
    """Say whether a run goes on; of another machine's, its signs of life say so."""
    return store_owner.is_alive(campaign, datetime.now(UTC))


def current(runs: Sequence[Campaign]) -> list[Campaign]:
    """Return the newest run of each campaign: later ones have taken the others up."""
    newest: dict[str, Campaign] = {}
    for run in runs:
        newest.setdefault(shown_id(run), run)
    return list(newest.values())


def searches(store: KernelStore) -> list[Campaign]:
    """Return the runs of campaigns and of plain searches, newest first."""
    return [c for c in store.campaigns(limit=_MOST_CAMPAIGNS) if search_spec_of(c) is not None]


def history_of(
    store: KernelStore,
    campaign: str | None,
    *,
    task: str | None,
    status: Status | None,
    limit: int,
) -> tuple[HistoryEntry, ...]:
    """Return what was tried, newest first; of a campaign in all of its runs.

    Raises:
        InputError: no campaign, or several, begin like this.
    """
    if campaign is None:
        return store.history(task=task, status=status, limit=limit)
    runs = store.runs(shown_id(store.campaign(campaign)))
    found = [
        entry
        for run in runs
        for entry in store.history(campaign=run.id, task=task, status=status, limit=limit)
    ]
    return tuple(sorted(found, key=lambda entry: entry.at, reverse=True)[:limit])


def handovers_of(store: KernelStore, entries: Iterable[HistoryEntry]) -> tuple[str, ...]:
    """Return the sentences that say who answered instead of whom, of what was tried."""
    runs = dict.fromkeys(entry.campaign_id for entry in entries)
    told = (e for run in runs for e in store.events(run, kinds=(ModelRemarked.__name__,)))
    remarks = (event.read(ModelRemarked) for event in told)
    return tuple(dict.fromkeys(r.sentence for r in remarks if r.is_handover))


def shown_id(run: Campaign) -> str:
    """Return the id by which people know a run: that of the first run of its campaign."""
    return run.root_id or run.id


def _is_called(run: Campaign, wanted: str) -> bool:
    return run.id.startswith(wanted) or shown_id(run).startswith(wanted)


def find_campaign(runs: Sequence[Campaign], wanted: str | None) -> Campaign:
    """Return the newest run of the campaign whose id begins with `wanted` or whose name it is.

    Any run's id is the campaign's, too. Without `wanted` it is the newest of all.

    Raises:
        InputError: there is none.
    """
    if not runs:
        raise InputError(
            "no campaign with a file in the store yet; write one with `kernelwright campaign "
            "init`, start it with `kernelwright campaign run nightly.toml`."
        )
    for run in runs:
        if wanted is None or wanted == run.name or _is_called(run, wanted):
            return next(r for r in runs if shown_id(r) == shown_id(run))
    listed = ", ".join(f"{shown_id(c)[:8]} ({c.name})" for c in runs[:3])
    raise InputError(f"no campaign has the id or name {shown(wanted)}; the latest are: {listed}.")


@dataclass(frozen=True)
class Resumption:
    """A campaign that goes on: its id, and what it is asked to do from now on."""

    root_id: str
    spec: CampaignSpec


def to_resume(
    store: KernelStore, wanted: str | None, larger: LargerCaps | None = None
) -> Resumption:
    """Return the campaign to take up, by the id of any of its runs, and its settings.

    Raises:
        InputError: there is none, it still runs, it ran to its end, or a cap ended it and no
            other cap is given.
        UsageError: a cap is given that is used up.
    """
    refuse_search(store, wanted)
    runs = current(nights(store))
    left = [run for run in runs if run.state not in ("finished", "capped")]
    run = _newest_of_its_campaign(store, wanted, left if wanted is None and left else runs)
    if is_alive(run):
        raise InputError(
            f"campaign {shown_id(run)[:8]} ({run.name}) still runs in {Owner.parse(run.owner)}; "
            f"stop it with: kernelwright campaign stop {shown_id(run)[:8]}"
        )
    short_id = shown_id(run)[:8]
    ended = _ending_of(store, run)
    if run.state == "finished":
        more = "candidates or a longer plateau in its file, no larger cap, would try more; "
        raise InputError(
            f"campaign {short_id} ({run.name}) ran to its end; "
            f"{more if ended and ended.cap else ''}read it with: "
            f"kernelwright report {short_id} --html report.html"
        )
    before = campaign_spec_of(run)
    assert before is not None
    larger = larger or LargerCaps()
    larger.check(store, store.runs(shown_id(run)))
    spec = larger.on(before)
    if run.state == "capped" and spec == before:
        raise InputError(
            f"campaign {short_id} ({run.name}) ended at a cap; give a larger one to go on, such "
            f"as: kernelwright campaign resume {short_id} "
            f"{larger_cap(before, ended.cap if ended else '')}"
        )
    return Resumption(run.root_id, spec)


def _ending_of(store: KernelStore, run: Campaign) -> CampaignEnded | None:
    ended = store.events(run.id, kinds=(CampaignEnded.__name__,))
    return ended[-1].read(CampaignEnded) if ended else None


def refuse_search(store: KernelStore, wanted: str | None) -> None:
    """Say how a plain search ends and goes on, where one is named.

    Raises:
        InputError: it is a search's id.
    """
    for run in searches(store):
        if wanted and _is_called(run, wanted) and campaign_spec_of(run) is None:
            raise InputError(
                f"{shown_id(run)[:8]} is a search, not a campaign with a file; Ctrl-C ends it "
                "where it runs, and the same kernelwright search goes on from there."
            )


def _newest_of_its_campaign(
    store: KernelStore, wanted: str | None, runs: Sequence[Campaign]
) -> Campaign:
    """Find a run by name or by the id of any run of its campaign; return the campaign's newest."""
    every = nights(store)
    found = find_campaign(runs if wanted is None else every, wanted)
    return next(run for run in every if shown_id(run) == shown_id(found))


def ask_to_stop(store: KernelStore, campaign_id: str) -> None:
    """Ask a run to end in order, wherever it runs; it looks every second."""
    store.log(campaign_id, STOP, "{}")


def ask_to_pause(store: KernelStore, campaign_id: str) -> None:
    """Ask a run to hold still, wherever it runs; it keeps its place and its hours."""
    store.log(campaign_id, PAUSE, "{}")


def ask_to_go_on(store: KernelStore, campaign_id: str) -> None:
    """Ask a run that holds still to go on."""
    store.log(campaign_id, GO_ON, "{}")


def find_paused(
    store: KernelStore, runs: Sequence[Campaign], wanted: str | None
) -> Campaign | None:
    """Return the newest run that is alive and holds still, if it is one that is meant."""
    for run in runs:
        is_meant = wanted is None or wanted == run.name or _is_called(run, wanted)
        if is_meant and is_alive(run) and is_paused(store.events(run.id)):
            return run
    return None


class StopWatch:
    """Looks every second whether somebody asked its run to end, to hold still or to go on."""

    def __init__(
        self,
        store: KernelStore,
        pause: Pause | None = None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        """Watch over one run; `say` tells its own terminal that it was paused, and that not."""
        self._store = store
        self._say = say
        self._pause = pause or Pause()
        self._campaign_id = ""
        self._over = threading.Event()

    def show(self, event: Event) -> None:
        """Learn the run's id from its first event."""
        if isinstance(event, CampaignBegan):
            self._campaign_id = event.campaign_id

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Look, on a thread of its own, and call `stop` once."""
        thread = threading.Thread(target=self._look, args=(stop,), name="stop-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _look(self, stop: Callable[[], None]) -> None:
        while not self._over.wait(_LOOK_S):
            # A store that cannot be asked, as its server restarts, may be asked again soon; the
            # run itself says what became of it.
            with suppress(StoreError):
                log = self._log()
                if any(event.kind == STOP for event in log):
                    stop()
                    return
                if is_paused(log) != self._pause.is_on:
                    self._turn(to_pause=not self._pause.is_on)

    def _log(self) -> Sequence[LoggedEvent]:
        if not self._campaign_id:
            return ()
        return self._store.events(self._campaign_id, kinds=(STOP, PAUSE, GO_ON))

    def _turn(self, *, to_pause: bool) -> None:
        if not to_pause:
            self._pause.go_on()
            self._say("goes on")
            return
        id_ = shown_id(self._store.campaign(self._campaign_id))
        self._pause.hold()
        self._say(
            "paused: what runs ends, nothing new begins; go on with: kernelwright campaign "
            f"resume {id_[:8]}"
        )
