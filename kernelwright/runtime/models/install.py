"""`optimize` and `restore` of whole models."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mlx.nn.layers.base import Module

from kernelwright.errors import InputError
from kernelwright.runtime.models.heir import set_class
from kernelwright.runtime.models.nest import Key, call_key, without_sizes
from kernelwright.runtime.models.paying import Arm
from kernelwright.runtime.models.plan_chooser import Chosen, PlanChooser
from kernelwright.runtime.models.route import bind
from kernelwright.runtime.models.site import (
    SeenCall,
    Site,
    activate,
    answer,
    install,
    own_method,
    site_of,
    uninstall,
)
from kernelwright.runtime.models.step_trials import StepTrials, root_call
from kernelwright.runtime.models.surroundings import Surroundings
from kernelwright.runtime.models.tree import all_modules, own_class
from kernelwright.runtime.models.unpacked import Unpacking
from kernelwright.runtime.server import KernelServer

_MOST_KEYS = 256
_MOST_LOOKS = 64
_MOST_LEARNED = 4096
"""A model that changes itself at every call is left to MLX after so many."""
_MOST_SIZES = 2
"""Sizes of a kind of call that are looked at when they first come."""


@dataclass
class Installation:
    """A model with kernels in place: what was decided, and what is being learned."""

    model: Module
    server: KernelServer
    epoch: int = 0
    calls: int = 0
    """Of the whole model, whatever ran."""
    comparison: str = ""
    """The function that compares classes of modules by `is`: the model has its own for good."""
    hear: Callable[[Chosen], None] = lambda chosen: None
    """Told which calls of modules run kernels, each time that a call of the model was looked at."""
    _decided: dict[Key, int] = field(default_factory=dict)
    _plain: set[Key] = field(default_factory=set)
    """Kinds of calls of the model in which no part runs kernels."""
    _serves: bool = False
    """Whether any call runs kernels."""
    _sizes: Counter[Key] = field(default_factory=Counter)
    """How many sizes of a kind of call were looked at."""
    _met_once: set[Key] = field(default_factory=set)
    _seen: list[SeenCall] | None = None
    _learner: int = 0
    _generation: int = -1
    _idle: tuple[int, int] | None = None
    """The epoch and the generation in which nothing can serve a call: none is looked at."""
    _learned: int = 0
    _looks: int = 0
    _holds: Callable[[], bool] = lambda: False
    """Says whether what the model's code reads besides its parameters is what it was."""
    _surveyed: int = -1
    """The epoch in which what its code reads was noted."""
    _thread: threading.local = field(default_factory=threading.local)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def trials(self) -> StepTrials:
        """What times steps with kernels in place."""
        return StepTrials(self.server)

    @cached_property
    def chooser(self) -> PlanChooser:
        """What plans the calls of its modules."""
        return PlanChooser(self.server)

    @cached_property
    def unpacking(self) -> Unpacking | None:
        """What quantized layers ask in prefill."""
        return Unpacking(self.server) if self.server.unpacks_weights else None

    @property
    def _has_anything(self) -> bool:
        return self.server.has_champions or (
            not self.server.is_off and self.chooser.translation.serves(self.model)
        )

    def install(self) -> None:
        """Watch every module of the model."""
        for path, module in all_modules(self.model):
            found = site_of(module)
            if found is None or not found.is_watched_by(self):
                site = Site(self, is_root=not path).after(found)
                install(module, site, is_active=not path)

    def enter(
        self, module: Module, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Answer a call of the model; one of a new kind is looked at part by part."""
        was_inside = getattr(self._thread, "is_inside", False)
        was_plain = self.is_plain()
        self._thread.is_inside = True
        try:
            return self._enter(module, args, kwargs)
        finally:
            self._thread.is_inside = was_inside
            self._thread.is_plain = was_plain

    def is_plain(self) -> bool:
        """Say whether this thread is in a call of a kind in which no kernels run."""
        return getattr(self._thread, "is_plain", False)

    def is_current(self) -> bool:
        """Say whether routes may answer: the model asked, or nothing changed since it did."""
        return getattr(self._thread, "is_inside", False) or (
            self._generation == self.server.generation() and self._holds()
        )

    def _enter(
        self, module: Module, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        self.calls += 1
        generation = self.server.generation()
        if self._idle == (self.epoch, generation):
            return own_method(module, "__call__")(module, *args, **kwargs)
        key = call_key(args, kwargs)
        is_decided = self._decided.get(key) == self.epoch
        is_current = is_decided and self._generation == generation
        # What runs no kernels is the model's own code, whatever that reads by now.
        if is_current and (not self._serves or self._holds()):
            if self.trials and (kept := self.trials.step(key)) is not None:
                self._note_kept(kept)
            self._thread.is_plain = key in self._plain
            return self._call(module, args, kwargs)
        if self._seen is not None or not self._lock.acquire(blocking=False):
            # Another thread is looking; this call is MLX's.
            return self._call(module, args, kwargs)
        try:
            return self._learn(module, args, kwargs)
        finally:
            self._lock.release()

    def _call(
        self, module: Module, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        site = site_of(module)
        if site is None:
            return own_method(module, "__call__")(module, *args, **kwargs)
        return answer(module, site, "__call__", args, kwargs)

    def faults(self) -> list[str]:
        """Name the classes of modules that a fault of ours leaves to MLX."""
        return [
            f"{name} is left to MLX by a fault of Kernelwright's ({fault}); please report it"
            for name, fault in sorted(self.chooser.faults.items())
        ]

    def is_looking(self) -> bool:
        """Say whether this thread is looking at a call of the model."""
        return self._seen is not None and self._learner == threading.get_ident()

    def saw(self, call: SeenCall) -> None:
        """Note a call that a module answered itself, while the model is being looked at."""
        if self._seen is not None:
            self._seen.append(call)

    def _learn(
        self, module: Module, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Run a call with every module reporting, and decide which parts run kernels."""
        self._learned += 1
        # The call may change what its caches hold.
        key = call_key(args, kwargs)
        generation = self.server.generation()
        is_left = self._learned > _MOST_LEARNED
        if generation != self._generation or (not is_left and not self._holds()):
            self._forget()
            self.trials.clear()
            self.epoch += 1
            self._generation = generation
            self._looks += 1
            if self._looks > _MOST_LOOKS:
                self._learned = _MOST_LEARNED + 1
        if self._surveyed != self.epoch:
            self._look_around()
        if self.comparison:
            return own_method(module, "__call__")(module, *args, **kwargs)
        if not self._has_anything or self._learned > _MOST_LEARNED:
            self._idle = self.epoch, generation
            return self._call(module, args, kwargs)
        if self._may_wait(key):
            self._learned -= 1
            return self._call(module, args, kwargs)
        self._met_once.add(key)
        self.install()
        modules = [found for _, found in all_modules(module)]
        for found in modules:
            activate(found, is_active=True)
        self._seen, self._learner = [], threading.get_ident()
        try:
            made = self._call(module, args, kwargs)
            seen = self._seen
        finally:
            self._seen = None
        chosen = self._decide(module, seen)
        self._serves |= bool(chosen)
        self._sizes[without_sizes(key)] += 1
        # What a step as one function is made of runs once for all steps.
        is_pure = not self.chooser.refusal(self.model)
        root = root_call(module, key, args, kwargs) if is_pure else None
        kept = self.trials.weigh(key, chosen, root)
        if kept is not None:
            self._note_kept(kept)
        for found in modules:
            site = site_of(found)
            routes = site is not None and site.epoch == self.epoch and bool(site.routes)
            activate(found, is_active=found is self.model or routes)
        if len(self._decided) > _MOST_KEYS:
            self._decided.clear()
            self._plain.clear()
        if self.chooser.is_hindered:
            # The caller's transformation has no values; the next call may have some.
            self._learned -= 1
            return made
        self._decided[key] = self.epoch
        (self._plain.discard if chosen else self._plain.add)(key)
        return made

    def _forget(self) -> None:
        self.chooser.forget()
        self._decided.clear()
        self._plain.clear()
        self._sizes.clear()
        self._met_once.clear()
        self._serves = False

    def _may_wait(self, key: Key) -> bool:
        """Say whether a call of a new size runs as it is until that size comes again.

        Each prompt has a length of its own, and a look at one costs more than its kernels save.
        """
        if self._sizes[without_sizes(key)] < _MOST_SIZES or key in self._met_once:
            return False
        if len(self._met_once) > _MOST_LEARNED:
            self._met_once.clear()
        self._met_once.add(key)
        return True

    def _look_around(self) -> None:
        """Note what the model's code reads besides its parameters."""
        self._surveyed = self.epoch
        around = Surroundings.of(own_method(self.model, "__call__"), self.model)
        self._holds, self.comparison = around.holds, around.comparison
        if self.comparison:
            for _, module in all_modules(self.model):
                set_class(module, own_class(module))

    def _note_kept(self, kept: Arm) -> None:
        """Compare nothing at the calls of a model none of whose kernels stayed."""
        if not kept and not self.trials:
            sites = (site_of(module) for _, module in all_modules(self.model))
            self._serves = any(site is not None and site.routes for site in sites)

    def _decide(self, module: Module, seen: list[SeenCall]) -> Chosen:
        """Let the calls that kernels serve be answered by them, and return those calls."""
        chosen = self.chooser.choose(module, seen)
        self.hear(chosen)
        for call, plan in chosen:
            site = site_of(call.module)
            if site is not None:
                site.add(call, plan.trace.passed, bind(plan, call.module))
        return chosen


def optimize_model(model: Module, server: KernelServer) -> Module:
    """Install kernels in a module, in place, and return it."""
    restore_model(model)
    if not server.is_off:
        server.weighs_steps = server.measures_time
        Installation(model, server).install()
    return model


def restore_model(model: Module) -> Module:
    """Undo `optimize_model`; a module that was never optimized stays as it is."""
    for _, module in all_modules(model):
        site = site_of(module)
        if site is not None:
            # Other models may hold it: they look again at their next call.
            site.touch()
        uninstall(module)
    return model


def is_settled(model: Module) -> bool:
    """Say whether no kernels are being timed in place any more."""
    site = site_of(model)
    return site is None or not isinstance(site.owner, Installation) or site.owner.trials.is_settled


def calls_of(model: Module) -> int | None:
    """Return how often an optimized model was called; None where it has its own code."""
    site = site_of(model)
    return site.owner.calls if site is not None and isinstance(site.owner, Installation) else None


def explain_model(model: Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """Call an optimized model, where arguments are given, and list which parts run kernels.

    Raises:
        InputError: the model is not optimized.
    """
    site = site_of(model)
    if site is None or not isinstance(site.owner, Installation):
        raise InputError(
            f"expected a model that kernelwright.optimize changed, found {type(model).__name__} "
            "that is not optimized, as after restore, pickle or KERNELWRIGHT=off; call "
            "kernelwright.optimize(model) first."
        )
    if args or kwargs:
        model(*args, **kwargs)
    rows = []
    for path, module in all_modules(model):
        found = site_of(module)
        if found is not None and found.routes and found.epoch == site.owner.epoch:
            name = ".".join(map(str, path)) or "the whole model"
            rows.append(f"{name} ({own_class(module).__name__}): kernels")
    served = "; ".join(sorted(rows)) or f"MLX runs all of it: {_why_nothing(site.owner)}"
    refusals = site.owner.chooser.refusals
    return "; ".join([served, *(refusals[name] for name in sorted(refusals)), *site.owner.faults()])


def _why_nothing(owner: Installation) -> str:
    server = owner.server
    if owner.comparison:
        return f"{owner.comparison} compares the class of a module by `is`; use isinstance there"
    if server.device is None:
        return "this machine has no GPU that runs such Metal kernels"
    if why := server.why_no_store("run kernelwright tune"):
        return why
    if not server.has_champions:
        return "the store has no champion for this device"
    if owner.trials.is_no_gain:
        return "a step with its kernels was no faster than one without"
    return "no fresh champion fits the shapes and dtypes of its parts so far"
