"""Whether kernels make a whole step faster: steps with and without them are timed in turns.

A kernel that wins in a chain of its own may lose in a model, where Python and launches count. So
the intervals between calls of one kind are measured while a program generates, and parts that do
not pay are left to MLX.
"""

import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlx.nn.layers.base import Module

from kernelwright.runtime.models.nest import Key
from kernelwright.runtime.models.route import Plan, bind, restricted
from kernelwright.runtime.models.site import Site, activate
from kernelwright.runtime.models.straight_line import Run
from kernelwright.runtime.models.tree import own_class
from kernelwright.runtime.server import KernelServer

Part = tuple[str, str]
"""The class of a module, and which of its kernels."""
Arm = frozenset[Part]
_TIMED = 6
"""Intervals of a block that count."""
_SKIPPED = 2
"""Steps after a change of kernels: the first builds them, and the GPU still has work before."""
_BLOCKS = 3
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


class StepTrial:
    """Times a model's step with kernels, without, and without one part of them at a time."""

    def __init__(self, placed: Sequence[Placed], server: KernelServer) -> None:
        """Begin with every kernel in place."""
        self._placed = tuple(placed)
        self._server = server
        self._whole: Arm = frozenset().union(*(p.parts for p in placed))
        self._thread = threading.get_ident()
        self._bound: dict[Arm, tuple[Run | None, ...]] = {}
        self._plans: dict[tuple[int, frozenset[str]], Plan | None] = {}
        self._last_s: float | None = None
        self._is_final = False
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
        return self._is_final or self._passed > 0 or any(self._taken.values())

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
        if arm not in self._bound:
            self._bound[arm] = tuple(self._run(placed, arm) for placed in self._placed)
        for placed, run in zip(self._placed, self._bound[arm], strict=True):
            if run is None:
                placed.site.routes.pop(placed.key, None)
            else:
                placed.site.routes[placed.key] = run
            is_active = placed.site.is_root or bool(placed.site.routes)
            activate(placed.module, is_active=is_active)

    def _run(self, placed: Placed, arm: Arm) -> Run | None:
        names = frozenset(part for part in placed.plan.parts if placed.label(part) in arm)
        if names == placed.plan.parts:
            return bind(placed.plan, placed.module)
        key = (id(placed.plan), names)
        if key not in self._plans:
            self._plans[key] = restricted(placed.plan, self._server, names) if names else None
        plan = self._plans[key]
        return None if plan is None else bind(plan, placed.module)

    def _begin(self, arms: Sequence[Arm]) -> None:
        self._taken: dict[Arm, list[float]] = {arm: [] for arm in arms}
        there, back = list(self._taken), list(self._taken)[::-1]
        self._order = [arm for block in range(_BLOCKS) for arm in (back if block % 2 else there)]
        self._passed = 0

    def _next(self) -> None:
        self._order.pop(0)
        self._passed = 0
        if not self._order:
            self._conclude()
        if self.kept is None:
            self.put(self._order[0])

    def _conclude(self) -> None:
        medians = {arm: statistics.median(taken) for arm, taken in self._taken.items()}
        if not self._is_final:
            self._is_final = True
            self._begin(finalists(self._whole, medians))
            return
        self.kept = best(medians)
        if not wins_each_block(self._taken[self.kept], self._taken[frozenset()]):
            self.kept = frozenset()
        self.put(self.kept)
        self._bound.clear()


def wins_each_block(taken: Sequence[float], other: Sequence[float]) -> bool:
    """Say whether an arm was faster than another whenever both had their turns.

    Where the GPU and not the host is what takes longest, kernels change a step by less than it
    differs from one second to the next; a median alone would keep what loses.
    """
    blocks = range(0, min(len(taken), len(other)), _TIMED)
    return all(
        statistics.median(taken[at : at + _TIMED]) < statistics.median(other[at : at + _TIMED])
        for at in blocks
    )


def finalists(whole: Arm, medians: Mapping[Arm, float]) -> list[Arm]:
    """Return what to compare once more: all, none, and all without the parts that cost time."""
    costly = {
        part for part in whole if medians.get(whole - {part}, 1e9) < _NO_LOSS * medians[whole]
    }
    return list(dict.fromkeys([whole, whole - costly, frozenset()]))


def best(medians: Mapping[Arm, float]) -> Arm:
    """Return the fastest arm; no kernels at all unless they are a gain."""
    best = min(medians, key=lambda arm: medians[arm])
    none: Arm = frozenset()
    return best if medians[none] >= _LEAST_SPEEDUP * medians[best] else none
