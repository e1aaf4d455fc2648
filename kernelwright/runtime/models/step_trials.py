"""Steps of a model timed in place: with kernels against without, a trial for each kind of call."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlx.nn.layers.base import Module

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.models.compiled_step import StepCall
from kernelwright.runtime.models.nest import Key, call_key
from kernelwright.runtime.models.paying import Arm, Placed, RootCall, StepTrial
from kernelwright.runtime.models.plan_chooser import Chosen
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.server import KernelServer


@dataclass
class StepTrials:
    """The trials that go on, and what those that ended found."""

    server: KernelServer
    _trials: dict[Key, StepTrial] = field(default_factory=dict)
    _verdicts: dict[tuple[Key, Arm], Arm] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Say whether any trial goes on."""
        return bool(self._trials)

    @property
    def is_settled(self) -> bool:
        """Say whether no kernels are being timed in place."""
        return not any(trial.has_begun for trial in self._trials.values())

    @property
    def is_no_gain(self) -> bool:
        """Say whether kernels were found and timed in place, and none of them stayed."""
        return bool(self._verdicts) and not any(self._verdicts.values())

    def clear(self) -> None:
        """End all trials without a verdict; what earlier ones found stays known."""
        self._trials.clear()

    def step(self, key: Key) -> Arm | None:
        """Note that a call of a kind begins; return which kernels stay, if its trial ends so."""
        for other, interrupted in list(self._trials.items()):
            if other != key:
                interrupted.interrupt()
        trial = self._trials.get(key)
        if trial is None:
            return None
        trial.step()
        if trial.kept is not None:
            self._verdicts[key, trial.whole] = trial.kept
            self._trials.pop(key, None)
        return trial.kept

    def weigh(self, key: Key, chosen: Chosen, root: RootCall | None) -> Arm | None:
        """Begin to time a step with kernels against one without, or do as was found before.

        Returns:
            Which kernels stay, where that is known.
        """
        self._trials.pop(key, None)
        if not self.server.measures_time or any(plan.is_untried for _, plan in chosen):
            return None
        placed = []
        for call, plan in chosen:
            site = site_of(call.module)
            if site is not None:
                name = (call.method, call_key(call.args, call.kwargs, site.passed))
                placed.append(Placed(call.module, site, name, plan))
        if not placed:
            return None
        trial = StepTrial(placed, self.server, root)
        known = self._verdicts.get((key, trial.whole))
        if known is None:
            self._trials[key] = trial
        else:
            trial.put(known)
        return known


def root_call(
    model: Module, key: Key, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> RootCall | None:
    """Describe a call that may become one function; None where it is given other state."""
    try:
        return RootCall(model, key, StepCall.of(args, kwargs))
    except UnsupportedError:
        return None
