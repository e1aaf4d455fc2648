"""`optimize` and `restore` of whole models."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mlx.nn.layers.base import Module

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.runtime.models.cached_attention import capacities
from kernelwright.runtime.models.compiled_step import StepCall
from kernelwright.runtime.models.heir import set_class
from kernelwright.runtime.models.nest import Key, array_types, call_key, without_sizes
from kernelwright.runtime.models.paying import Arm, Placed, RootCall, StepTrial
from kernelwright.runtime.models.recorded import Results, Trace, result_types
from kernelwright.runtime.models.route import Plan, bind, make_plan
from kernelwright.runtime.models.shadow import rotates
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
from kernelwright.runtime.models.surroundings import Surroundings
from kernelwright.runtime.models.trace import trace_call
from kernelwright.runtime.models.translated import Translation
from kernelwright.runtime.models.tree import all_modules, own_class, structure, submodules
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
    hear: Callable[[Sequence[tuple[SeenCall, Plan]]], None] = lambda chosen: None
    """Told which calls of modules run kernels, each time that a call of the model was looked at."""
    _decided: dict[Key, int] = field(default_factory=dict)
    _plans: dict[tuple[object, ...], Plan | None] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], list[tuple[Trace, Plan | None]]] = field(default_factory=dict)
    _plain: set[Key] = field(default_factory=set)
    """Kinds of calls of the model in which no part runs kernels."""
    _serves: bool = False
    """Whether any call runs kernels."""
    _sizes: Counter[Key] = field(default_factory=Counter)
    """How many sizes of a kind of call were looked at."""
    _met_once: set[Key] = field(default_factory=set)
    _faults: dict[str, str] = field(default_factory=dict)
    """What went wrong where a class of modules was looked at: ours, and none of the model's."""
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
    _trials: dict[Key, StepTrial] = field(default_factory=dict)
    """Of kinds of calls whose kernels are being timed in place."""
    _verdicts: dict[tuple[Key, Arm], Arm] = field(default_factory=dict)

    @cached_property
    def unpacking(self) -> Unpacking | None:
        """What quantized layers ask in prefill."""
        return Unpacking(self.server) if self.server.unpacks_weights else None

    @property
    def _has_anything(self) -> bool:
        return self.server.has_champions or (
            not self.server.is_off and self._translation.serves(self.model)
        )

    @cached_property
    def _translation(self) -> Translation:
        return Translation(self.server.device)

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
            if self._trials:
                self._time(key)
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

    def _time(self, key: Key) -> None:
        """Note that a call of a kind begins, while kernels are being timed in place."""
        for other, trial in list(self._trials.items()):
            if other != key:
                trial.interrupt()
                continue
            trial.step()
            if trial.kept is not None:
                self._verdicts[key, trial.whole] = trial.kept
                self._trials.pop(key, None)
                self._note_kept(trial.kept)

    @property
    def is_settled(self) -> bool:
        """Say whether no kernels are being timed in place."""
        return not any(trial.has_begun for trial in self._trials.values())

    @property
    def is_no_gain(self) -> bool:
        """Say whether kernels were found and timed in place, and none of them stayed."""
        return bool(self._verdicts) and not any(self._verdicts.values())

    def faults(self) -> list[str]:
        """Name the classes of modules that a fault of ours leaves to MLX."""
        return [
            f"{name} is left to MLX by a fault of Kernelwright's ({fault}); please report it"
            for name, fault in sorted(self._faults.items())
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
            self._trials.clear()
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
        self._weigh(key, chosen, _root_call(module, key, args, kwargs))
        for found in modules:
            site = site_of(found)
            routes = site is not None and site.epoch == self.epoch and bool(site.routes)
            activate(found, is_active=found is self.model or routes)
        if len(self._decided) > _MOST_KEYS:
            self._decided.clear()
            self._plain.clear()
        self._decided[key] = self.epoch
        (self._plain.discard if chosen else self._plain.add)(key)
        return made

    def _forget(self) -> None:
        self._plans.clear()
        self._alike.clear()
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

    def _weigh(
        self, key: Key, chosen: Sequence[tuple[SeenCall, Plan]], root: RootCall | None
    ) -> None:
        """Begin to time a step with kernels against one without, or do as was found before."""
        self._trials.pop(key, None)
        if not self.server.measures_time or any(plan.is_untried for _, plan in chosen):
            return
        placed = []
        for call, plan in chosen:
            site = site_of(call.module)
            if site is not None:
                name = (call.method, call_key(call.args, call.kwargs, site.passed))
                placed.append(Placed(call.module, site, name, plan))
        if not placed:
            return
        trial = StepTrial(placed, self.server, root)
        known = self._verdicts.get((key, trial.whole))
        if known is None:
            self._trials[key] = trial
        else:
            trial.put(known)
            self._note_kept(known)

    def _note_kept(self, kept: Arm) -> None:
        """Compare nothing at the calls of a model none of whose kernels stayed."""
        if not kept and not self._trials:
            sites = (site_of(module) for _, module in all_modules(self.model))
            self._serves = any(site is not None and site.routes for site in sites)

    def _decide(self, module: Module, seen: list[SeenCall]) -> list[tuple[SeenCall, Plan]]:
        results: Results = {
            (id(c.module), c.method, array_types((c.args, dict(c.kwargs)))): result_types(c.result)
            for c in seen
        }
        calls: dict[int, list[SeenCall]] = {}
        for call in seen:
            calls.setdefault(id(call.module), []).append(call)
        chosen = self._choose(module, calls, results)[0]
        self.hear(chosen)
        for call, plan in chosen:
            site = site_of(call.module)
            if site is not None:
                site.add(call, plan.trace.passed, bind(plan, call.module))
        return chosen

    def _choose(
        self, module: Module, calls: dict[int, list[SeenCall]], results: Results
    ) -> tuple[list[tuple[SeenCall, Plan]], int]:
        """Choose kernels for a module or for the modules inside, whichever cover more bytes."""
        own: list[tuple[SeenCall, Plan]] = []
        apart: dict[int, Module] = {}
        for call in calls.get(id(module), ()):
            plan = self._plan(call, results)
            if plan is not None:
                own.append((call, plan))
                apart |= {id(child): child for child in plan.modules_apart(module)}
        inside = {id(child): child for _, child in submodules(module)}
        inner, inner_bytes = self._choose_all(list(inside.values()), calls, results)
        if not own:
            return inner, inner_bytes
        rest, rest_bytes = self._choose_all(list(apart.values()), calls, results)
        own_bytes = sum(plan.covered_bytes for _, plan in own) + rest_bytes
        return (own + rest, own_bytes) if own_bytes >= inner_bytes else (inner, inner_bytes)

    def _choose_all(
        self, modules: list[Module], calls: dict[int, list[SeenCall]], results: Results
    ) -> tuple[list[tuple[SeenCall, Plan]], int]:
        chosen: list[tuple[SeenCall, Plan]] = []
        covered = 0
        for module in modules:
            found, nbytes = self._choose(module, calls, results)
            chosen += found
            covered += nbytes
        return chosen, covered

    def _plan(self, call: SeenCall, results: Results) -> Plan | None:
        key = (structure(call.module), call.method, call_key(call.args, call.kwargs))
        if key in self._plans:
            return self._plans[key]
        trace: Trace | None = None
        plan: Plan | None = None
        try:
            _check_reads(call)
            trace, plan = self._traced(call, results)
        except KernelwrightError:
            # It does what no graph holds; the modules inside may do less.
            plan = None
        except Exception as e:
            # The call was answered already: a model that works does not fail for want of kernels.
            self._faults[type(call.module).__name__] = f"{type(e).__name__}: {e}"
        if trace is None or trace.is_shared:
            self._plans[key] = plan
        return plan

    def _traced(self, call: SeenCall, results: Results) -> tuple[Trace, Plan | None]:
        """Return a plan whose graphs hold rotary embeddings, where kernels serve all of them."""
        with_rope: Plan | None = None
        if any(rotates(found) for _, found in all_modules(call.module)):
            try:
                trace = self._trace(call, results, holds_rope=True)
                with_rope = self._made(trace, call) if trace.rotates else None
            except KernelwrightError:
                # It looks at the cache itself, or an offset is an array.
                with_rope = None
        try:
            trace = self._trace(call, results, holds_rope=False)
            plan = self._made(trace, call)
        except KernelwrightError:
            if with_rope is None:
                raise
            return with_rope.trace, with_rope
        return (trace, plan) if with_rope is None else (trace, replace(with_rope, otherwise=plan))

    def _trace(self, call: SeenCall, results: Results, *, holds_rope: bool) -> Trace:
        return trace_call(
            call.module,
            call.method,
            call.args,
            call.kwargs,
            results,
            self._translation,
            holds_rope=holds_rope,
        )

    def _made(self, trace: Trace, call: SeenCall) -> Plan | None:
        """Return a plan; layers that differ in what no line of them read share one.

        Many keep their number. A kernel from elsewhere would be tried once for each of them.
        """
        lengths = capacities((call.args, dict(call.kwargs)))
        alike = self._alike.setdefault((trace.graph, trace.parameters, tuple(lengths)), [])
        for other, plan in alike:
            if other == trace:
                return plan
        plan = make_plan(trace, self.server, lengths)
        if trace.is_shared:
            alike.append((trace, plan))
        return plan


def _check_reads(call: SeenCall) -> None:
    """Refuse a call whose code reads what may change without anybody's notice."""
    obstacle = Surroundings.of(own_method(call.module, call.method), call.module).obstacle
    if obstacle:
        name = type(call.module).__name__
        raise UnsupportedError(f"what {name} reads cannot be compared at each call ({obstacle})")


def _root_call(
    model: Module, key: Key, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> RootCall | None:
    """Describe a call that may become one function; None where it is given other state."""
    try:
        return RootCall(model, key, StepCall.of(args, kwargs))
    except UnsupportedError:
        return None


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
    return site is None or not isinstance(site.owner, Installation) or site.owner.is_settled


def calls_of(model: Module) -> int | None:
    """Return how often an optimized model was called; None where it has its own code."""
    site = site_of(model)
    return site.owner.calls if site is not None and isinstance(site.owner, Installation) else None


def explain_model(model: Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """Call an optimized model, where arguments are given, and list which parts run kernels.

    Raises:
        KernelwrightError: the model is not optimized.
    """
    site = site_of(model)
    if site is None or not isinstance(site.owner, Installation):
        raise KernelwrightError(
            f"expected a model that kernelwright.optimize changed, found {type(model).__name__} "
            "as MLX has it; optimize it first, without KERNELWRIGHT=off."
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
    return "; ".join([served, *site.owner.faults()])


def _why_nothing(owner: Installation) -> str:
    server = owner.server
    if owner.comparison:
        return f"{owner.comparison} compares the class of a module by `is`; use isinstance there"
    if server.device is None:
        return "this machine has no GPU that runs such Metal kernels"
    if server.store is None:
        return "there is no kernel store here yet; run kernelwright tune"
    if not server.has_champions:
        return "the store has no champion for this device"
    if owner.is_no_gain:
        return "a step with its kernels was no faster than one without"
    return "no fresh champion fits the shapes and dtypes of its parts so far"
