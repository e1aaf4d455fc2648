"""Stages of one verdict side by side: on a GPU, on the simulator and in a fresh process.

Which stage names the verdict does not depend on which one ends first: it is the first in the order
of `Stage` that refuses the program, as if each had waited for the one before it. What a later stage
found beside it is forgotten.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from threading import Condition, Event

from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.stages.facts import Lane, Superseded
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure

_ORDER = tuple(Stage)
_LANES: Mapping[Lane, tuple[Stage, ...]] = {
    "device": (Stage.COMPILE, Stage.CORRECTNESS, Stage.DETERMINISM, Stage.TIMING, Stage.HIDDEN),
    # What waits for the GPU's answers comes last.
    "simulator": (Stage.SANITIZE, Stage.COVERAGE, Stage.COUNT, Stage.ALLCLOSE),
    "fresh process": (Stage.CONFIRMATION,),
}


def run_side_by_side(context: Context, stages: Sequence[PipelineStage]) -> None:
    """Put a program through stages, each lane's one after the other; all have ended then.

    Raises:
        Failure: a stage refused the program; the first in the order of `Stage`.
        DeviceError: the machine failed at such a stage, so that there is no verdict.
    """
    lanes = _Lanes(context, stages)
    context.end_later_stages = lanes.end_later
    lanes.run()


class _Lanes:
    def __init__(self, context: Context, stages: Sequence[PipelineStage]) -> None:
        self._context = context
        self._stages = {stage.name: stage for stage in stages}
        self._refusals: dict[Stage, BaseException] = {}
        self._running: dict[Lane, Stage] = {}
        self._changed = Condition()
        self._halts: dict[Lane, Event] = {lane: context.workers.halt(lane) for lane in _LANES}
        self._is_over_from = len(_ORDER)
        """Place of the first stage that is not to be told of any more."""

    def run(self) -> None:
        context = self._context
        context.facts.expect(name for stage in self._stages.values() for name in stage.gives)
        beside = [
            context.workers.begin_lane(partial(self._run_lane, lane))
            for lane in _LANES
            if lane != "device" and any(name in self._stages for name in _LANES[lane])
        ]
        try:
            self._run_lane("device")
        finally:
            wait(beside)
        self._conclude()

    def _run_lane(self, lane: Lane) -> None:
        for name in _LANES[lane]:
            stage = self._stages.get(name)
            if stage is None or not self._starts(lane, name):
                continue
            try:
                with self._context.verdict.stage(name) as words:
                    words.append(stage.run(self._context))
            except Superseded:
                pass
            except Exception as e:
                self._refuse(name, e)
            except BaseException:
                # Whoever interrupts waits for no verdict.
                self._halt_from(0)
                raise
            finally:
                with self._changed:
                    del self._running[lane]
                    self._changed.notify_all()

    def _starts(self, lane: Lane, name: Stage) -> bool:
        with self._changed:
            if _ORDER.index(name) >= self._is_over_from:
                return False
            self._halts[lane].clear()
            self._running[lane] = name
            return True

    def _refuse(self, name: Stage, error: BaseException) -> None:
        with self._changed:
            self._refusals[name] = error
        self._halt_from(_ORDER.index(name))
        if name is Stage.SANITIZE and self._runs_later(name):
            # What strays may hang on the GPU too, or spoil what comes after it there.
            self._context.workers.kill_device()

    def end_later(self, name: Stage) -> None:
        """Stop what is later than a stage, and wait until it has stopped."""
        self._halt_from(_ORDER.index(name) + 1)
        with self._changed:
            self._changed.wait_for(lambda: not self._runs_later(name))
        for halt in self._halts.values():
            halt.clear()

    def _runs_later(self, name: Stage) -> bool:
        return any(_ORDER.index(one) > _ORDER.index(name) for one in self._running.values())

    def _halt_from(self, place: int) -> None:
        """Begin no stage from a place on, and end those that run at their next request."""
        with self._changed:
            self._is_over_from = min(self._is_over_from, place)
            for lane, running in self._running.items():
                if _ORDER.index(running) >= self._is_over_from:
                    self._halts[lane].set()
        given = {n for s in self._stages.values() if _ORDER.index(s.name) >= place for n in s.gives}
        self._context.facts.withdraw(given)

    def _conclude(self) -> None:
        refused = min(self._refusals, key=_ORDER.index, default=None)
        if any(_has_spoilt(error) for error in self._refusals.values()):
            self._context.workers.kill_device()
        if refused is not None:
            self._context.verdict.forget_after(refused)
            raise self._refusals[refused]
        self._context.verdict.stages.sort(key=lambda result: _ORDER.index(result.stage))


def _has_spoilt(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.lost_worker
