"""Whether kernels make a whole step faster: steps with and without them are timed in turns.

A kernel that wins in a chain of its own may lose in a model, where Python and launches count. So
the intervals between calls of one kind are measured while a program generates, and parts that do
not pay are left to MLX.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlx.nn.layers.base import Module

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.models.compiled_step import Answer, CompiledStep, StepCall
from kernelwright.runtime.models.nest import Key
from kernelwright.runtime.models.route import Plan, bind, restricted
from kernelwright.runtime.models.site import Site, activate, site_of
from kernelwright.runtime.models.straight_line import Run
from kernelwright.runtime.models.tree import all_modules, own_class
from kernelwright.runtime.server import KernelServer

Part = tuple[str, str]
"""The class of a module, and which of its kernels."""
Arm = frozenset[Part]
COMPILED: Part = ("the model", "one function")
"""The part of an arm that runs the whole step as one compiled function."""
_TIMED = 6
"""Intervals of a block that count."""
_SKIPPED = 2
"""Steps after a change of kernels: the first builds them, and the GPU still has work before."""
_BLOCKS = 3
_MOST_BLOCKS = 9
"""Of an arm, where the machine was too busy to tell after fewer."""
_LOST_OF = 6
"""Of so many blocks one may be lost to whatever else ran."""
_MOST_APART = 6
"""Parts that are left out one at a time."""
_LEAST_SPEEDUP = 1.01
_NO_LOSS = 0.995


@dataclass(frozen=True)
class Placed:
    """A plan that answers calls of a module."""

    module: Module
    site: Site
    key: tuple[str, Key]
    plan: Plan

    def label(self, part: str) -> Part:
        """Name a part of the plan; layers of one class are decided upon together."""
        return (own_class(self.module).__name__, part)

    @property
    def parts(self) -> frozenset[Part]:
        """Every part of the plan."""
        return frozenset(self.label(part) for part in self.plan.parts)


@dataclass(frozen=True)
class RootCall:
    """The call of the whole model that a step is."""

    model: Module
    key: Key
    call: StepCall


class StepTrial:
    """Times a model's step with kernels, without, and without one part of them at a time.

    What stays is timed once more as one compiled function, where it can be one.
    """

    def __init__(
        self, placed: Sequence[Placed], server: KernelServer, root: RootCall | None = None
    ) -> None:
        """Begin with every kernel in place."""
        self._placed = tuple(placed)
        self._server = server
        self._root = root
        self._steps: dict[Arm, CompiledStep | None] = {}
        self._whole: Arm = frozenset().union(*(p.parts for p in placed))
        self._thread = threading.get_ident()
        self._bound: dict[Arm, tuple[Run | None, ...]] = {}
        self._plans: dict[tuple[int, frozenset[str]], Plan | None] = {}
        self._last_s: float | None = None
        self._decide = self._narrow
        self.kept: Arm | None = None
        """What pays, once that is known."""
        apart = [self._whole - {part} for part in sorted(self._whole)]
        with_one_less = apart if 1 < len(apart) <= _MOST_APART else []
        self._begin([self._whole, frozenset(), *with_one_less])

    @property
    def whole(self) -> Arm:
        """Every part that was found."""
        return self._whole

    @property
    def has_begun(self) -> bool:
        """Say whether any step was timed; calls that never follow each other are not."""
        is_later = self._decide != self._narrow
        return is_later or self._passed > 0 or any(self._taken.values())

    def interrupt(self) -> None:
        """Forget when the last step began: something else was called since."""
        self._last_s = None

    def step(self) -> None:
        """Note that a step begins, and put other kernels in place when their turn comes."""
        if threading.get_ident() != self._thread or self.kept is not None:
            return
        now_s = time.perf_counter()
        if self._last_s is not None:
            self._passed += 1
            if self._passed > _SKIPPED:
                self._taken[self._order[0]].append(now_s - self._last_s)
            if self._passed == _SKIPPED + _TIMED:
                self._next()
        self._last_s = time.perf_counter()

    def put(self, arm: Arm) -> None:
        """Put the kernels of some parts in place, and no others."""
        is_compiled = COMPILED in arm
        arm -= {COMPILED}
        if arm not in self._bound:
            self._bound[arm] = tuple(self._run(placed, arm) for placed in self._placed)
        for placed, run in zip(self._placed, self._bound[arm], strict=True):
            if run is None:
                placed.site.routes.pop(placed.key, None)
            else:
                placed.site.routes[placed.key] = run
            is_active = placed.site.is_root or bool(placed.site.routes)
            activate(placed.module, is_active=is_active)
        self._put_step(arm, is_compiled=is_compiled)

    def _run(self, placed: Placed, arm: Arm) -> Run | None:
        plan = self._plan(placed, arm)
        return None if plan is None else bind(plan, placed.module)

    def _plan(self, placed: Placed, arm: Arm) -> Plan | None:
        names = frozenset(part for part in placed.plan.parts if placed.label(part) in arm)
        if names == placed.plan.parts:
            return placed.plan
        key = (id(placed.plan), names)
        if key not in self._plans:
            self._plans[key] = restricted(placed.plan, self._server, names) if names else None
        return self._plans[key]

    def _put_step(self, arm: Arm, *, is_compiled: bool) -> None:
        """Let the model be one function, or not; one that it had before has lost its place."""
        step = self._step(arm) if is_compiled else None
        root = self._root
        site = site_of(root.model) if root is not None else None
        if root is None or site is None:
            return
        own = next((placed.key for placed in self._placed if placed.module is root.model), None)
        name = own or ("__call__", root.key)
        if step is not None:
            site.put(name, step)
        elif own is None:
            site.routes.pop(name, None)

    def _step(self, arm: Arm) -> CompiledStep | None:
        """Return the step with some kernels as one function; None where it cannot be one."""
        if arm not in self._steps:
            self._steps[arm] = self._compiled(arm)
        return self._steps[arm]

    def _compiled(self, arm: Arm) -> CompiledStep | None:
        root = self._root
        if root is None:
            return None
        paths = {id(module): path for path, module in all_modules(root.model)}
        answers = []
        for placed in self._placed:
            plan = self._plan(placed, arm)
            if plan is not None:
                answers.append(Answer(paths[id(placed.module)], placed.key[0], plan))
        try:
            return CompiledStep(root.model, root.call, answers)
        except UnsupportedError:
            return None

    def _begin(self, arms: Sequence[Arm]) -> None:
        self._taken: dict[Arm, list[float]] = {arm: [] for arm in arms}
        self._go_on()

    def _go_on(self) -> None:
        """Give every arm its turns, once more where they had some."""
        there, back = list(self._taken), list(self._taken)[::-1]
        self._order = [arm for block in range(_BLOCKS) for arm in (back if block % 2 else there)]
        self._passed = 0

    def _next(self) -> None:
        self._order.pop(0)
        self._passed = 0
        if not self._order:
            self._decide({arm: typical(taken) for arm, taken in self._taken.items()})
        if self.kept is None:
            self.put(self._order[0])

    def _narrow(self, times: Mapping[Arm, float]) -> None:
        """Go on with all kernels, none, and all but those that cost time."""
        self._decide = self._choose
        self._begin(finalists(self._whole, times))

    def _choose(self, times: Mapping[Arm, float]) -> None:
        """Keep the fastest kernels, and time them as one function."""
        none: Arm = frozenset()
        kept = best(times)
        is_gain = kept != none and is_faster(self._taken[kept], self._taken[none])
        if is_gain is None:
            self._go_on()
        elif is_gain and self._step(kept) is not None:
            self._decide = self._join
            self._begin([kept, kept | {COMPILED}])
        else:
            self._keep(kept if is_gain else none)

    def _join(self, times: Mapping[Arm, float]) -> None:
        """Keep the one function where it is faster than its parts."""
        apart, joined = times
        is_gain = is_faster(self._taken[joined], self._taken[apart])
        if is_gain is None:
            self._go_on()
        else:
            self._keep(joined if is_gain else apart)

    def _keep(self, arm: Arm) -> None:
        self.kept = arm
        self.put(arm)
        self._bound.clear()


def typical(taken: Sequence[float]) -> float:
    """Return the lower quartile of times: whatever else runs makes them longer."""
    return sorted(taken)[len(taken) // 4]


def is_faster(taken: Sequence[float], other: Sequence[float]) -> bool | None:
    """Say whether an arm is faster than another; None where more turns have to tell.

    It has to be so by a gain that can be told, and whenever both had their turns. Where the GPU and
    not the host is what takes longest, kernels change a step by less than it differs from one
    second to the next; all times together would keep what loses.
    """
    if typical(other) < _LEAST_SPEEDUP * typical(taken):
        return False
    blocks = range(0, min(len(taken), len(other)), _TIMED)
    lost = sum(
        typical(taken[at : at + _TIMED]) >= typical(other[at : at + _TIMED]) for at in blocks
    )
    if lost <= len(blocks) // _LOST_OF:
        return True
    return False if len(blocks) >= _MOST_BLOCKS else None


def finalists(whole: Arm, times: Mapping[Arm, float]) -> list[Arm]:
    """Return what to compare once more: all, none, and all without the parts that cost time."""
    costly = {part for part in whole if times.get(whole - {part}, 1e9) < _NO_LOSS * times[whole]}
    return list(dict.fromkeys([whole, whole - costly, frozenset()]))


def best(times: Mapping[Arm, float]) -> Arm:
    """Return the fastest arm; no kernels at all unless they are a gain."""
    best = min(times, key=lambda arm: times[arm])
    none: Arm = frozenset()
    return best if times[none] >= _LEAST_SPEEDUP * times[best] else none
