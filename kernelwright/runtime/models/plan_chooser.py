"""Which parts of a model's call run kernels: a plan for each call that a module answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mlx.nn.layers.base import Module

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.trace.value_look import is_without_values
from kernelwright.runtime.models.cached_attention import capacities
from kernelwright.runtime.models.nest import array_types, call_key
from kernelwright.runtime.models.purity.examination import effect_of_module
from kernelwright.runtime.models.recorded import Results, Trace, result_types
from kernelwright.runtime.models.route import Plan, make_plan
from kernelwright.runtime.models.shadow import rotates
from kernelwright.runtime.models.site import METHODS, SeenCall, own_method, site_of
from kernelwright.runtime.models.surroundings import Surroundings
from kernelwright.runtime.models.trace import trace_call
from kernelwright.runtime.models.translated import Translation
from kernelwright.runtime.models.tree import all_modules, own_class, structure, submodules
from kernelwright.runtime.server import KernelServer

Chosen = list[tuple[SeenCall, Plan]]
"""Calls that run kernels, each with its plan."""


@dataclass
class PlanChooser:
    """Plans calls of modules, each kind once, until what they read changes."""

    server: KernelServer
    faults: dict[str, str] = field(default_factory=dict)
    """What went wrong where a class of modules was looked at: ours, and none of the model's."""
    refusals: dict[str, str] = field(default_factory=dict)
    """What classes of modules do besides computing, so that they run their own code."""
    is_hindered: bool = False
    """Whether the call looked at last could not be planned for want of values: others can."""
    _examined: dict[tuple[object, ...], str] = field(default_factory=dict)
    """What modules of a structure do besides computing; empty where they only compute."""
    _met: dict[int, str] = field(default_factory=dict)
    """The same for the modules of the call that is looked at, by their addresses."""
    _plans: dict[tuple[object, ...], Plan | None] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], list[tuple[Trace, Plan | None]]] = field(default_factory=dict)

    @cached_property
    def translation(self) -> Translation:
        """The models' own Metal kernels, where this device runs them translated."""
        return Translation(self.server.device)

    @property
    def plans(self) -> list[Plan]:
        """The plans that were made since it last forgot."""
        return [plan for plan in self._plans.values() if plan is not None]

    def forget(self) -> None:
        """Plan anew: champions, or what the model's code reads, are not what they were."""
        self._plans.clear()
        self._alike.clear()
        self._examined.clear()
        self.refusals.clear()

    def refusal(self, module: Module) -> str:
        """Say why a module, with all inside it, may not be traced; empty where it may.

        Nothing of it is run to find that out.
        """
        for _, found in all_modules(module):
            if id(found) not in self._met:
                self._met[id(found)] = self._own_refusal(found)
            if self._met[id(found)]:
                return self._met[id(found)]
        return ""

    def _own_refusal(self, module: Module) -> str:
        """Say why a module's own code may not be traced."""
        name = own_class(module).__name__
        site = site_of(module)
        if site is not None and site.varying:
            said = f"its attribute {min(site.varying)} keeps changing"
        else:
            key = structure(module)
            if key not in self._examined:
                effect = effect_of_module(module, METHODS)
                self._examined[key] = f"it {effect.what}{effect.line}" if effect is not None else ""
            said = self._examined[key]
        if not said:
            return ""
        self.refusals[name] = f"{name} runs its own code: {said}"
        return self.refusals[name]

    def choose(self, module: Module, seen: Sequence[SeenCall]) -> Chosen:
        """Choose kernels for the calls that were seen while a module was called."""
        self._met.clear()
        self.is_hindered = False
        results: Results = {
            (id(c.module), c.method, array_types((c.args, dict(c.kwargs)))): result_types(c.result)
            for c in seen
        }
        calls: dict[int, list[SeenCall]] = {}
        for call in seen:
            calls.setdefault(id(call.module), []).append(call)
        return self._choose(module, calls, results)[0]

    def _choose(
        self, module: Module, calls: dict[int, list[SeenCall]], results: Results
    ) -> tuple[Chosen, int]:
        """Choose kernels for a module or for the modules inside, whichever cover more bytes."""
        own: Chosen = []
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
    ) -> tuple[Chosen, int]:
        chosen: Chosen = []
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
            self._check(call)
            trace, plan = self._traced(call, results)
        except KernelwrightError:
            # It does what no graph holds; the modules inside may do less.
            plan = None
        except Exception as e:
            # The call was answered already: a model that works does not fail for want of kernels.
            if is_without_values(e):
                self.is_hindered = True
                return None
            self.faults[type(call.module).__name__] = f"{type(e).__name__}: {e}"
        if trace is None or trace.is_shared:
            self._plans[key] = plan
        return plan

    def _check(self, call: SeenCall) -> None:
        """Refuse a call whose code does more than compute, or reads what changes unnoticed."""
        if refusal := self.refusal(call.module):
            raise UnsupportedError(refusal)
        _check_reads(call)

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
            self.translation,
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
