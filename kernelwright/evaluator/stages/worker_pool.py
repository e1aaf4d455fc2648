"""The workers of one evaluator: kept warm, emptied between candidates, replaced when lost."""

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.oracle.parallel import begin
from kernelwright.evaluator.stages.facts import Lane
from kernelwright.evaluator.stages.trial import Trial, Turn, at_once
from kernelwright.evaluator.worker.mlx_kernels import MlxKernels
from kernelwright.evaluator.worker.process import Worker
from kernelwright.evaluator.worker.service import CheckText
from kernelwright.evaluator.worker.start import open_worker, ready_cache, renew
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Device
from kernelwright.metal.kernel import MathMode, Program

_TEXT_TIMEOUT_S = 20.0
_GPUS = ("metal", "cuda")
_MOST_BESIDE = 2
"""Lanes beside the one of the thread that judges: the simulator's and the fresh process's."""


class WorkerPool:
    """Opens the processes in which candidates run, on the device and on the simulator."""

    def __init__(self, device: str | Device, config: EvaluatorConfig, turn: Turn = at_once) -> None:
        """Run on `device`; what uses it waits for its `turn`."""
        self.config = config
        self._device = device
        self._worker: Worker | None = None
        self._simulator: Worker | None = None
        """Sanitizes what is meant for a GPU; unused where the device is the simulator itself."""
        self._info: DeviceInfo | None = None
        self._turn = turn
        self._primed: dict[tuple[MathMode, ...], Future[None]] = {}
        self._unused: Worker | None = None
        """The worker, while it has read texts and run nothing."""
        self._mlx_kernels: MlxKernels | None = None
        """Where MLX compiles on the device what programs are timed beside."""
        self._next: Future[tuple[Worker, DeviceInfo]] | None = None
        """The worker that takes the place of the one that is there, while it opens."""
        self._beside: Worker | None = None
        """The worker that a program is confirmed in while the other one is still at work."""
        self._halts: dict[Lane, Event] = defaultdict(Event)
        self._lanes: ThreadPoolExecutor | None = None
        self.kept_builds: Path | None = None
        """Where workers that are opened from now on leave what they compile, to each other too."""
        self.is_over = False
        """True once its workers were ended for good."""

    def end(self) -> None:
        """End the workers for good: whatever runs in one comes to nothing."""
        self.is_over = True
        if self._mlx_kernels is not None:
            self._mlx_kernels.close()
        self.close()
        if self._lanes is not None:
            self._lanes.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End the workers, from any thread; others take their place where they are asked for."""
        workers = (self._worker, self._simulator, self._beside)
        self._worker = self._simulator = self._beside = None
        for worker in workers:
            if worker is not None:
                worker.close()
        self._close_next()

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the workers that are there."""
        workers = (self._worker, self._simulator, self._beside)
        return tuple(worker.process for worker in workers if worker is not None)

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; starts the worker."""
        if self._info is None:
            self._ready_worker()
        assert self._info is not None
        return self._info

    def check_text(self, program: Program) -> Reply:
        """Apply the static rules to a program's texts, in a worker that has run no candidate.

        Raises:
            Failure: a text is so made that it cannot be read in time.
        """
        trial = self._fresh_trial(program)
        reply = trial.call(CheckText(program), _TEXT_TIMEOUT_S)
        self._unused = trial.worker
        return reply

    def trial(self, program: Program) -> Trial:
        """Return where a program runs that nothing of an earlier candidate is left in."""
        primed = self._prime(program)
        if self.info.name not in _GPUS:
            # A GPU's candidate meets the simulator later.
            primed.result()
        return self._fresh_trial(program)

    def trial_in_a_new_process(self, program: Program) -> Trial:
        """Return where a program runs that no candidate ran in before.

        A worker that forks a process for each candidate forks one more, from one that has run
        none; another worker is replaced, for a GPU's driver is part of what may be spoilt.
        """
        if not self.is_side_by_side and self._is_replaced:
            assert self._worker is not None
            self._worker.close()
            self._take_next()
        if self.is_side_by_side:
            return self._trial_beside(program)
        return self._fresh_trial(program)

    def _trial_beside(self, program: Program) -> Trial:
        """Return where a program runs while its first worker is still asked for other things."""
        self._beside, _ = self._open_worker()
        return Trial(self._beside, program, self.config, self._turn, self.halt("fresh process"))

    def open_ahead(self) -> None:
        """Begin to open the worker that a program is confirmed in, where that takes its place."""
        if not self.is_side_by_side and self._is_replaced and self._next is None:
            self._next = begin(self._open_worker)

    @property
    def _is_replaced(self) -> bool:
        """True where no candidate's process succeeds another's in the worker that is there."""
        return self._worker is not None and "succession" not in self._worker.confinement

    def _take_next(self) -> None:
        """Let the worker that was opened ahead be the one; without it another is opened."""
        opening, self._next = self._next, None
        if opening is not None and not opening.cancel():
            # One that did not open is told of where it is opened again.
            with suppress(DeviceError):
                self._worker, self._info = opening.result()
                self._unused = self._worker

    def _close_next(self) -> None:
        """End the worker that was opened ahead, for nobody was confirmed in it."""
        opening, self._next = self._next, None
        if opening is not None and not opening.cancel():
            opening.add_done_callback(_close_opened)

    def sanitizing_trial(self, trial: Trial) -> Trial:
        """Return where the sanitizer runs: a candidate for a GPU goes to the simulator first."""
        if self.info.name not in _GPUS:
            return trial
        self._prime(trial.program).result()
        simulator = self._simulator
        if simulator is None or not simulator.is_alive or not renew(simulator):
            # What exceeds Metal's limit there must do so here, and nothing else may.
            limit = self.info.threadgroup_bytes
            simulator, _ = open_worker("simulator", self.config.memory_bytes, limit)
        self._simulator = simulator
        return Trial(simulator, trial.program, self.config, halt=self.halt("simulator"))

    @property
    def is_side_by_side(self) -> bool:
        """True where a GPU and the simulator share nothing, so that both work on one program.

        A GPU that shares memory and power with the cores is left alone by them.
        """
        return self.info.name == "cuda"

    def halt(self, lane: Lane) -> Event:
        """Return what ends the work of a lane at its next request."""
        return self._halts[lane]

    def begin_lane(self, work: Callable[[], None]) -> Future[None]:
        """Begin work beside this thread's, on a thread that lasts as long as this.

        Linux kills a worker when the thread ends that opened it.
        """
        if self._lanes is None:
            self._lanes = ThreadPoolExecutor(_MOST_BESIDE, thread_name_prefix="lane")
        return self._lanes.submit(work)

    def kill_device(self) -> None:
        """End the worker on the device, whatever it is at; the next program gets another."""
        if (worker := self._worker) is not None:
            worker.kill()

    def compile_baselines(self, graph: Graph) -> None:
        """Begin what MLX needs long for, before a program is timed beside it."""
        if self.info.name == "cuda" and isinstance(self._device, str):
            if self._mlx_kernels is None:
                self._mlx_kernels = MlxKernels(self._open_worker, self.info)
            self._mlx_kernels.start(graph)

    def lend_baselines(self, graph: Graph, trial: Trial) -> None:
        """Let MLX find in a trial's worker what was compiled; wait for it."""
        if self._mlx_kernels is not None:
            self._mlx_kernels.lend(graph, trial.worker)

    def free_device(self) -> None:
        """Leave nothing on a device that measures which is still to be freed."""
        self._close_next()
        if self._beside is not None:
            self._beside.close()
            self._beside = None
        worker = self._worker
        if worker is not None and worker.is_alive and self.info.measures_time:
            # One that hangs is closed by now, and the next candidate gets another.
            with suppress(DeviceError), self._turn(alone=False):
                renew(worker)

    def _fresh_trial(self, program: Program) -> Trial:
        is_new = self._worker is None or not self._worker.is_alive
        worker = self._ready_worker()
        if not is_new and worker is not self._unused and not renew(worker):
            worker = self._ready_worker()
        self._unused = None
        return Trial(worker, program, self.config, self._turn, self.halt("device"))

    def _prime(self, program: Program) -> Future[None]:
        """Have the shared cache hold what the simulator compiles this program with."""
        modes = tuple(sorted({kernel.math_mode for kernel in program.kernels}))
        known = self._primed.get(modes)
        if known is None or (known.done() and known.exception()):
            self._primed[modes] = begin(lambda: ready_cache(self.config.memory_bytes, modes))
        return self._primed[modes]

    def _ready_worker(self) -> Worker:
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        self._worker, self._info = self._open_worker()
        return self._worker

    def _open_worker(self) -> tuple[Worker, DeviceInfo]:
        if self.is_over:
            raise DeviceError("interrupted: its evaluator was closed.")
        config = self.config
        limit, chip = config.threadgroup_bytes, config.stands_for
        return open_worker(self._device, config.memory_bytes, limit, chip, self.kept_builds)


def _close_opened(opening: Future[tuple[Worker, DeviceInfo]]) -> None:
    if opening.exception() is None:
        opening.result()[0].close()
