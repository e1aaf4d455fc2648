"""Finds the store's kernels for a graph and prepares them on this machine's device."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError, StoreError
from kernelwright.evaluator.gain import gain_of
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import Replacement, RunRegion, stitch
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.registry import open_device
from kernelwright.plan import fast_traffic
from kernelwright.plan.mlx.quantized_product import UNPACKED, unpack_untried
from kernelwright.public_call import in_python
from kernelwright.runtime.chain import Run
from kernelwright.runtime.cutting import is_whole_better, regions_of, wholes_of
from kernelwright.runtime.explanation import ServedRegion
from kernelwright.runtime.fast import put_back
from kernelwright.runtime.first_use import Candidate, Offer, try_offer
from kernelwright.runtime.running import runner
from kernelwright.store import (
    KernelStore,
    MachineTrial,
    ServedProgram,
    default_url,
    has_store,
    path_of,
    url_of,
)
from kernelwright.variable import SWITCH, are_kernels_off

_LOOK_EVERY_S = 1.0
_MOST_CHAMPIONS = 1_000_000
_RESIZED = "a champion for another size of it runs"
_UNTRIED = "kernels found elsewhere are not tried here yet"
_MOST_OFFERS = 3
"""Kernels from elsewhere that are tried for one region."""
_MOST_SLOWER = 1.5
"""Than MLX by itself, of a kernel that saves a model launches."""
_ASK_EVERY_S = 30.0
"""A database elsewhere has no file whose time tells that it changed."""


@dataclass(frozen=True)
class Service:
    """What the store offers for one graph."""

    graph: Graph
    programs: Mapping[Region, RunRegion]
    regions: tuple[ServedRegion, ...]
    reason: str
    """What is covered, or why nothing is."""
    is_lazy: bool = True
    """False on a device that has to see its inputs' values at once: the simulator."""
    kept: Mapping[Region, Replacement] = field(default_factory=dict)
    """MLX's own kernels, where the graph has them in pieces and no program covers these."""
    offers: tuple[Offer, ...] = ()
    """Kernels found elsewhere, which this machine has to try before they serve."""

    @property
    def replacements(self) -> Mapping[Region, Replacement]:
        """The programs, and MLX's own kernels for the rest."""
        return {**self.programs, **self.kept}


class KernelServer:
    """One store and one device, both opened when first needed."""

    unpacks_weights = True
    """Whether quantized layers may multiply by unpacked weights, where that is faster here."""

    def __init__(
        self,
        store: str | None = None,
        device: DeviceName | None = None,
        threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    ) -> None:
        """Serve from a store; a limit that is not Metal's means the kernels found under it."""
        self.url = store
        self._wanted_device = device
        self._threadgroup_bytes = threadgroup_bytes
        self.is_off = are_kernels_off()
        """The user runs the program without kernels; `KERNELWRIGHT=off` was set when it began."""
        self.weighs_steps = False
        """Whoever is served times whole steps, and leaves out what does not pay there."""
        self._generation = 0
        self._next_look_s = 0.0
        self._stamped: object = None
        self._champions: object = None
        self._fault = ""
        self._unstored: list[MachineTrial] = []

    @cached_property
    def device(self) -> Device | None:
        """The device that kernels run on; None where there is none that is fast."""
        name = self._wanted_device or _own_device()
        try:
            return open_device(name, self._threadgroup_bytes) if name else None
        except KernelwrightError:
            return None

    @property
    def measures_time(self) -> bool:
        """Say whether what kernels take on the device means anything."""
        return self.device is not None and self.device.info.measures_time

    @cached_property
    def store(self) -> KernelStore | None:
        """The store; None when there is none yet, or none that can be read."""
        try:
            found = KernelStore(self.url, must_exist=True)
        except KernelwrightError as e:
            self._fault = str(e)
            return None
        self._fault = ""
        return found

    def why_no_store(self, advice: str) -> str:
        """Say why there is no store, or none that can be read; nothing where it is read.

        Args:
            advice: what makes a store, such as `run kernelwright search`.
        """
        try:
            is_there = has_store(self.url or None)
        except KernelwrightError as e:
            return in_python(str(e)).rstrip(".")
        if is_there and self._fault:
            return f"the kernel store cannot be read: {in_python(self._fault).rstrip('.')}"
        return "" if is_there and self.store else f"there is no kernel store here yet; {advice}"

    def generation(self) -> int:
        """Return a number that grows when the store changes; it is looked at once in a while."""
        now = time.monotonic()
        if now >= self._next_look_s:
            self._next_look_s = now + _LOOK_EVERY_S
            if (stamp := self._stamp()) != self._stamped:
                self._stamped = stamp
                # Opening and closing a database changes its files, too; champions count.
                if (listed := self._listed()) != self._champions:
                    self._champions = listed
                    self._generation += 1
                    self.__dict__.pop("has_champions", None)
        return self._generation

    def _listed(self) -> object:
        """Return what is served from, and whether it still holds."""
        if self.store is None:
            # There may be one by now.
            self.__dict__.pop("store", None)
        if self.store is None:
            return None
        try:
            found = self.store.best(limit=_MOST_CHAMPIONS)
        except KernelwrightError as e:
            self._fault = str(e)
            return None
        self._fault = ""
        return frozenset((c.task.id, c.candidate_id, c.device, c.chip, c.freshness) for c in found)

    def _stamp(self) -> object:
        url = url_of(self.url) if self.url else default_url()
        if (path := path_of(url)) is None:
            return time.monotonic() // _ASK_EVERY_S
        return tuple(_changed_at(f"{path}{suffix}") for suffix in ("", "-wal"))

    @cached_property
    def has_champions(self) -> bool:
        """Say whether the store has any kernel, for this device or one that may be tried here."""
        if self.store is None or self.device is None:
            return False
        try:
            return bool(self.store.best(limit=1))
        except KernelwrightError as e:
            self._fault = str(e)
            return False

    def serve(self, graph: Graph) -> Service:
        """Find and prepare champions for a canonical graph; never fails."""
        try:
            return self._serve(graph)
        except StoreError as e:
            return _nothing(graph, str(e).rstrip("."))

    def _serve(self, graph: Graph) -> Service:
        if self.is_off:
            return _nothing(graph, f"{SWITCH}=off is set")
        if self.device is None:
            return _nothing(graph, "this machine has no GPU that runs such Metal kernels")
        if self.store is None:
            return _nothing(graph, self.why_no_store("run kernelwright search"))
        tasks, found = self._cut(graph)
        programs: dict[Region, RunRegion] = {}
        rows: list[ServedRegion] = []
        is_mlx_best = False
        for region, task in tasks.items():
            champion = found.get(task.fingerprint)
            if champion is not None and not self.is_worthwhile(champion):
                is_mlx_best = True
                continue
            run = self._prepare(champion, task) if champion else None
            if champion is not None and run is not None:
                programs[region] = run
                rows.append(_row(task, champion))
        left_over = {r: t for r, t in tasks.items() if r not in programs}
        offers = self._offers(left_over, programs)
        if programs or offers or not self.weighs_steps:
            # Layers that no kernel answers unpack their weights themselves.
            offers += self._unpackings(left_over, programs)
        if not programs and offers:
            return replace(
                _nothing(graph, "kernels from elsewhere are not tried yet"), offers=offers
            )
        if not programs and is_mlx_best:
            return _nothing(graph, "MLX is best for these shapes and dtypes: no champion is faster")
        if not programs:
            return _nothing(graph, "no fresh champion fits these shapes and dtypes")
        covered = {i for region in programs for i in region.indices}
        # What is still to be tried is computed op by op in the call that tries it.
        covered |= {i for offer in offers for i in offer.region.indices}
        kept, left = put_back(graph, frozenset(covered))
        if left:
            return _nothing(graph, f"no champion for {left}, which MLX runs in one kernel")
        words = f"{len(programs)} of {len(tasks)} regions run kernels"
        is_lazy = self.device.info.measures_time
        return Service(graph, programs, tuple(rows), words, is_lazy, kept, offers)

    def _cut(self, graph: Graph) -> tuple[dict[Region, Graph], dict[str, ServedProgram]]:
        """Return the regions of a graph with their tasks, or all of it as one, and champions.

        Models may have it computed by one kernel where the planner cuts it: that one serves, from
        here or from elsewhere, where it is faster than those of the parts.
        """
        tasks = {region: region.extract() for region in regions_of(graph)}
        wholes = {whole: whole.extract() for whole in wholes_of(graph, tasks.keys())}
        assert self.store is not None
        assert self.device is not None
        info = self.device.info
        ids = [task.fingerprint for task in (*tasks.values(), *wholes.values())]
        here = self.store.served(ids, device=info.name, chip=info.chip)
        if not wholes:
            return tasks, here
        found = here
        if not here:
            elsewhere = self.store.from_elsewhere(ids, device=info.name, chip=info.chip)
            found = {name: champions[0] for name, champions in elsewhere.items() if champions}
        champions = {region: found.get(task.fingerprint) for region, task in tasks.items()}
        parts = {region: c.evaluation if c else None for region, c in champions.items()}
        for whole, task in wholes.items():
            one = found.get(task.fingerprint)
            if one is None or not self.is_worthwhile(one):
                continue
            if is_whole_better(one.evaluation, parts, graph):
                return {whole: task}, here
        return tasks, here

    def is_worthwhile(self, champion: ServedProgram) -> bool:
        """Say whether a champion runs: MLX does where it is as fast."""
        return champion.beats_mlx

    def _offers(
        self, tasks: Mapping[Region, Graph], programs: dict[Region, RunRegion]
    ) -> tuple[Offer, ...]:
        """Return what is to be tried for regions; those whose trial was passed join `programs`."""
        assert self.device is not None
        assert self.store is not None
        info = self.device.info
        ids = [task.fingerprint for task in tasks.values()]
        found = self.store.from_elsewhere(ids, device=info.name, chip=info.chip) if ids else {}
        if not found:
            return ()
        offers: list[Offer] = []
        for region, task in tasks.items():
            run, candidates = self._untried(task, found.get(task.fingerprint, ()))
            if run is not None:
                programs[region] = run
            elif candidates:
                offers.append(Offer(region, task, candidates))
        return tuple(offers)

    def _unpackings(
        self, tasks: Mapping[Region, Graph], programs: dict[Region, RunRegion]
    ) -> tuple[Offer, ...]:
        """Return the products whose weights may be unpacked first; those that passed join.

        Where MLX multiplies many rows with packed weights slowly, unpacking them, by a champion
        or by MLX, and MLX's product of floats may be faster: the machine is asked once.
        """
        found: list[Offer] = []
        for region, task in tasks.items():
            unpacked, products = unpack_untried(task)
            trials = {p: self.machine_trial(p.trial_id, UNPACKED) for p in products}
            untried = [product for product, trial in trials.items() if trial is None]
            is_lost = any(trial is not None and not trial.is_kept for trial in trials.values())
            if region in programs or not products or is_lost or len(untried) > 1:
                continue
            run = _running(unpacked, self._serve(unpacked).replacements)
            if untried:
                found.append(Offer(region, task, (Candidate(UNPACKED, run),), untried[0].trial_id))
            else:
                programs[region] = run
        return tuple(found)

    def _untried(
        self, task: Graph, champions: Sequence[ServedProgram]
    ) -> tuple[RunRegion | None, tuple[Candidate, ...]]:
        """Return the champion that passed its trial here, or those that are to be tried."""
        tried = sorted(self._tried([task.fingerprint]), key=lambda trial: not trial.is_kept)
        known = {trial.candidate_id: self._is_kept(trial, task) for trial in tried}
        assert self.device is not None
        limit = _limit(self.device.info.chip)
        # Kernels found under another limit of threadgroup memory are for who asks for that.
        by_id = {c.champion.candidate_id: c for c in champions if _limit(c.champion.chip) == limit}
        for name in known:
            champion = by_id.get(name) if known[name] else None
            if champion is not None and (run := self._prepare(champion, task)) is not None:
                return run, ()
        left = [name for name in by_id if name not in known]
        prepared = [(name, self._prepare(by_id[name], task)) for name in left[:_MOST_OFFERS]]
        return None, tuple(Candidate(name, run) for name, run in prepared if run is not None)

    def _is_kept(self, trial: MachineTrial, task: Graph) -> bool:
        """Say whether a kernel that was tried here serves.

        One that is somewhat slower in a chain of its own may pay in a model, where the host is
        what takes longest: it has one launch in the place of several.
        """
        if trial.is_kept or not self.weighs_steps or not trial.kernel_us or not trial.mlx_us:
            return trial.is_kept
        return trial.kernel_us <= _MOST_SLOWER * trial.mlx_us and fast_traffic(task).launches > 1

    def _tried(self, ids: Sequence[str]) -> list[MachineTrial]:
        assert self.device is not None
        info = self.device.info
        stored: Sequence[MachineTrial] = ()
        if self.store is not None:
            stored = self.store.machine_trials(
                ids, device=info.name, chip=info.chip, runtime=info.runtime
            )
        return [*stored, *(trial for trial in self._unstored if trial.task_id in ids)]

    def settle(self, offer: Offer, arrays: Sequence[mx.array], mlx: Run | None = None) -> None:
        """Try what is offered for a region on real arrays, and remember what came of it."""
        assert self.device is not None
        info = self.device.info
        for verdict in try_offer(offer, arrays, measures_time=info.measures_time, mlx=mlx):
            self.remember(verdict.trial(offer.trial_id, info.name, info.chip, info.runtime))
        self._generation += 1

    def remember(self, trial: MachineTrial) -> None:
        """Let the store keep a trial, or this process where there is none that can be written."""
        try:
            if self.store is not None:
                self.store.record_machine_trial(trial)
                return
        except KernelwrightError:
            # A store that cannot be written now: this process remembers.
            pass
        self._unstored.append(trial)

    def machine_trial(self, task_id: str, candidate_id: str) -> MachineTrial | None:
        """Return what was remembered of a candidate for this chip and this version of MLX."""
        found = self._tried([task_id])
        return next((trial for trial in found if trial.candidate_id == candidate_id), None)

    def serve_resized(self, graph: Graph, others: Sequence[Graph]) -> Service:
        """Serve a graph that is one region by a program that was found for another size of it."""
        regions = regions_of(graph)
        if self.is_off or self.device is None or self.store is None or len(regions) != 1:
            return _nothing(graph, "no kernel serves other sizes of it")
        (region,) = regions
        own = region.extract()
        tasks = [found[0].extract() for other in others if len(found := regions_of(other)) == 1]
        ids, info = [task.fingerprint for task in tasks], self.device.info
        is_lazy = info.measures_time
        for champion in self.store.served(ids, device=info.name, chip=info.chip).values():
            run = self._prepare(champion, own) if champion.beats_mlx else None
            if run is not None:
                rows = (_row(own, champion),)
                return Service(graph, {region: run}, rows, _RESIZED, is_lazy)
        found_at = self.store.from_elsewhere(ids, device=info.name, chip=info.chip)
        champions = [champion for found in found_at.values() for champion in found]
        run, candidates = self._untried(own, champions)
        if run is not None:
            return Service(graph, {region: run}, (), _RESIZED, is_lazy)
        offers = (Offer(region, own, candidates),) if candidates else ()
        return replace(_nothing(graph, "no champion serves other sizes of it"), offers=offers)

    def _prepare(self, served: ServedProgram, task: Graph) -> RunRegion | None:
        assert self.device is not None
        try:
            return runner(self.device.compile(served.program.bind(task.input_types)))
        except KernelwrightError:
            return None


def _running(graph: Graph, replacements: Mapping[Region, Replacement]) -> RunRegion:
    stitched = stitch(graph, replacements)
    return lambda arrays: list(stitched(*arrays))


def _limit(chip: str) -> str:
    """Return what a chip's name says of a limit of threadgroup memory that is not Metal's."""
    return chip.partition(", ")[2]


def _changed_at(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _own_device() -> DeviceName | None:
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def _nothing(graph: Graph, reason: str) -> Service:
    return Service(graph, {}, (), reason)


def _row(task: Graph, served: ServedProgram) -> ServedRegion:
    return ServedRegion(
        operation=ir.operation(task),
        candidate=served.champion.candidate_id,
        gain=gain_of(served.evaluation, task),
    )
