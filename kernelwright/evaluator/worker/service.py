"""The service inside a candidate's worker: open a device, compile, run, time."""

import re
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

import mlx.core as mx
import numpy as np

from kernelwright.errors import DeviceError, InputError, KernelwrightError, OutdatedError
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.speed.measuring import (
    CompileBaselines,
    Measure,
    MeasureBandwidth,
    SetUp,
    Workbench,
    compile_baselines,
    measure,
    set_up,
)
from kernelwright.evaluator.static.normal_form import plain_texts
from kernelwright.evaluator.static.rules import check_program
from kernelwright.evaluator.worker.held_inputs import Shelf
from kernelwright.evaluator.worker.succession import give_way, run_in_succession
from kernelwright.evaluator.worker.wire import Reply, receive_request, send_reply
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device import registry
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, RunOptions
from kernelwright.metal.device.executable import (
    Array,
    Changes,
    Device,
    Executable,
    RepeatingExecutable,
    RunResult,
)
from kernelwright.metal.device.simulator import device as _simulator  # noqa: F401 (before a fork)
from kernelwright.metal.device.simulator.priming import is_ready, prime
from kernelwright.metal.diagnostic import CompileError, LaunchError
from kernelwright.metal.kernel import BoundProgram, Kernel, MathMode, Program, Tensor

_CPU_ALLOWANCE_S = 900
_OUT_OF_MEMORY = re.compile("out of memory|OutOfMemory|insufficient memory", re.IGNORECASE)
"""In CUDA's and Metal's words."""


@dataclass(frozen=True)
class Open:
    """Open the device; the reply's header holds its `info`."""

    device: str | Device
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES
    """What a threadgroup may take on a device that is opened by name."""
    stands_for: str = ""
    """The chip that a simulator that is opened by name stands for."""
    warms: bool = True
    """Compile and run a kernel of our own first, where that may fail or leave something behind."""

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device if isinstance(self.device, str) else self.device.info.name


@dataclass(frozen=True)
class Prime:
    """Build the simulator's headers for kernels of these math modes; needs a shared cache."""

    math_modes: tuple[MathMode, ...]


@dataclass(frozen=True)
class Forget:
    """Drop every compiled program: the next candidate comes."""


@dataclass(frozen=True)
class CheckText:
    """Apply the static rules to a program's texts; the header has breaches, or plain texts."""

    program: Program


@dataclass(frozen=True)
class Compile:
    """Compile a program and keep it under `key`."""

    key: str
    program: BoundProgram
    sanitize: bool = False


@dataclass(frozen=True)
class CompileAhead:
    """Compile several at once; what fails of them fails when it is asked for by itself."""

    programs: tuple[Compile, ...]


@dataclass(frozen=True)
class Run:
    """Run a compiled program; the reply's arrays are its outputs."""

    key: str
    inputs: tuple[Array, ...] | None
    """None for those that its shelf holds."""
    options: RunOptions
    layout: Layout = Layout.DENSE
    shelf: Shelf = "latest"
    """Where the inputs stay for later runs, in the place of others."""


@dataclass(frozen=True)
class RunParts:
    """Run a compiled program once for each part; the reply's arrays hold all outputs of each."""

    key: str
    ground: tuple[Array, ...]
    moves: tuple[Changes, ...]
    """What the inputs of each part hold beside what they share."""
    options: RunOptions

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self.moves[0].positions)


Request = (
    Open
    | Prime
    | Forget
    | CheckText
    | Compile
    | CompileAhead
    | Run
    | RunParts
    | CompileBaselines
    | SetUp
    | MeasureBandwidth
    | Measure
)


class CandidateService:
    """Answers requests; every failure of a candidate is a reply, not an exception.

    The header's `failure` is empty or one of `input`, `compile`, `launch`, `memory`, `device`,
    `internal`; `is_spoilt` says that the process may be unfit for another candidate.
    """

    def __init__(self, *, succeeds: bool = False) -> None:
        """Serve; one that `succeeds` ends its process where it would forget a candidate."""
        self._succeeds = succeeds
        self._device: Device | None = None
        self._executables: dict[str, Executable] = {}
        self._refused: dict[str, CompileError] = {}
        self._laboratory: Workbench | None = None
        self._inputs: dict[Shelf, tuple[Array, ...]] = {}
        """Of earlier runs. Devices run on copies, with another padding each time."""

    def answer(self, request: Request) -> Reply:
        """Serve one request."""
        try:
            return self._answer(request)
        except CompileError as e:
            diagnostics = [d.model_dump(mode="json") for d in e.diagnostics]
            return Reply({"failure": "compile", "message": str(e), "diagnostics": diagnostics})
        except LaunchError as e:
            if _OUT_OF_MEMORY.search(str(e)):
                # What a candidate takes was counted before it ran: others have the rest.
                return Reply({"failure": "device", "message": f"its memory is used up: {e}"})
            # A fault leaves a GPU's context unusable, and the next candidate is not to blame.
            is_spoilt = self._device is not None and self._device.info.measures_time
            return Reply({"failure": "launch", "message": str(e), "is_spoilt": is_spoilt})
        except InputError as e:
            # What MLX refuses before anything is compiled.
            return Reply({"failure": "input", "message": str(e)})
        except (MemoryError, RecursionError):
            return Reply({"failure": "memory", "message": "the worker's memory is exhausted."})
        except KernelwrightError as e:
            return Reply({"failure": "device", "message": str(e)})

    def _answer(self, request: Request) -> Reply:
        if isinstance(request, Open):
            self._forget()
            self._device = open_device(request)
            # What is compiled here ends with the next candidate; the simulator's shared cache
            # stays, and where it is complete there is nothing to find out.
            is_warm = request.device == "simulator" and is_ready()
            if isinstance(request.device, str) and request.warms and not is_warm:
                warm_up(self._device)
            return Reply({"info": self._device.info.model_dump(mode="json")})
        if isinstance(request, Prime):
            prime(request.math_modes)
            return Reply({})
        if isinstance(request, Forget):
            if self._succeeds:
                give_way()
            self._forget()
            return Reply({})
        if isinstance(request, CheckText):
            return _check_text(request.program)
        if self._device is None:
            raise DeviceError("expected an open device; send Open first.")
        if isinstance(request, Compile):
            self._compile(self._device, request)
            return Reply({})
        if isinstance(request, CompileAhead):
            self._compile_ahead(self._device, request.programs)
            return Reply({})
        if isinstance(request, CompileBaselines):
            return compile_baselines(request)
        if isinstance(request, SetUp):
            # The last one's arrays go first, for two rotations may not fit.
            self._laboratory = None
            executable = self._executables[request.key]
            self._laboratory, reply = set_up(self._device, executable, request)
            return reply
        if isinstance(request, MeasureBandwidth | Measure):
            return self._measure(request)
        if isinstance(request, RunParts):
            return _run_parts(self._executables[request.key], request)
        if request.inputs is not None:
            self._inputs[request.shelf] = request.inputs
        held = self._inputs[request.shelf]
        inputs = [request.layout.place(a, i) for i, a in enumerate(held)]
        started = time.perf_counter()
        result = self._executables[request.key].run(inputs, request.options)
        return _reply(result, time.perf_counter() - started)

    def _forget(self) -> None:
        self._executables.clear()
        self._refused.clear()
        self._laboratory = None
        self._inputs.clear()
        if self._device is not None and self._device.info.measures_time:
            mx.clear_cache()

    def _compile(self, device: Device, request: Compile) -> None:
        if request.key in self._refused:
            raise self._refused[request.key]
        if request.key not in self._executables:
            executable = device.compile(request.program, sanitize=request.sanitize)
            self._executables[request.key] = executable

    def _compile_ahead(self, device: Device, requests: Sequence[Compile]) -> None:
        def compile_one(request: Compile) -> None:
            try:
                self._compile(device, request)
            except CompileError as e:
                self._refused[request.key] = e

        with ThreadPoolExecutor() as pool:
            # To the end, so that what is no fault of the candidate's is raised.
            list(pool.map(compile_one, requests))

    def _measure(self, request: MeasureBandwidth | Measure) -> Reply:
        if self._laboratory is None:
            raise DeviceError("expected a laboratory; send SetUp first.")
        try:
            if isinstance(request, MeasureBandwidth):
                return Reply({"bytes_per_s": self._laboratory.bytes_per_s()})
            return measure(self._laboratory, request)
        except (RuntimeError, ValueError) as e:
            # Candidate and baselines have all run by now, so it is a launch that broke.
            raise LaunchError(f"a launch failed while it was timed: {e}") from e


def _run_parts(executable: Executable, request: RunParts) -> Reply:
    started, results = time.perf_counter(), list[RunResult]()
    if isinstance(executable, RepeatingExecutable):
        result = executable.run_changed(request.ground, request.moves, request.options)
        return _reply(result, time.perf_counter() - started)
    for part in range(request.parts):
        inputs = list(request.ground)
        for moves in request.moves:
            inputs[moves.place] = moves.applied(request.ground[moves.place], part)
        results.append(executable.run(inputs, request.options))
    outputs = zip(*(result.outputs for result in results), strict=True)
    first = results[0].model_copy(
        update={
            "outputs": tuple(map(np.stack, outputs)),
            "canaries_intact": tuple(
                map(all, zip(*(result.canaries_intact for result in results), strict=True))
            ),
            "inputs_intact": all(result.inputs_intact for result in results),
        }
    )
    return _reply(first, time.perf_counter() - started)


def _check_text(program: Program) -> Reply:
    if breaches := check_program(program):
        return Reply({"breaches": [d.model_dump(mode="json") for d in breaches]})
    texts = [[text.header, text.source] for text in plain_texts(program)]
    return Reply({"breaches": [], "texts": texts})


def _reply(result: RunResult, elapsed_s: float) -> Reply:
    return Reply(
        {
            "canaries_intact": result.canaries_intact,
            "inputs_intact": result.inputs_intact,
            "reports": [r.model_dump(mode="json") for r in result.reports],
            "counters": [c.model_dump(mode="json") for c in result.counters],
            "conditions": [c.model_dump(mode="json") for c in result.conditions],
            "elapsed_s": result.elapsed_s or elapsed_s,
        },
        result.outputs,
    )


def result_of(reply: Reply) -> RunResult:
    """Read a run's reply back into a record."""
    return RunResult.model_validate({**reply.header, "outputs": reply.arrays})


def open_device(request: Open) -> Device:
    """Return a device by name, or the device itself.

    Raises:
        DeviceError: this machine has no such device.
    """
    if isinstance(request.device, str):
        return registry.open_device(request.device, request.threadgroup_bytes, request.stands_for)
    return request.device


def warm_up(device: Device) -> None:
    """Compile and run a kernel of our own, so that no candidate waits for it.

    A GPU's driver shows here, and not with a candidate, whether it can work as confined.
    """
    array = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(8,))
    kernel = Kernel(
        name="warm_up",
        inputs=("x",),
        outputs=("y",),
        source="y[thread_position_in_grid.x] = x[thread_position_in_grid.x];",
        grid=(8, 1, 1),
        threadgroup=(8, 1, 1),
    )
    program = Program(
        inputs=(array,), outputs=(array.model_copy(update={"name": "y"}),), kernels=(kernel,)
    )
    bound = program.bind((TensorType((8,), Dtype.FLOAT32),))
    inputs = (np.zeros(8, np.float32),)
    if device.info.measures_time:
        device.compile(bound).run(inputs, RunOptions())
        return
    device.compile(bound).run(inputs, RunOptions(count=True))
    device.compile(bound, sanitize=True).run(inputs, RunOptions(sanitize=True))


def serve(pipe: Connection, confinement: tuple[str, ...], folders: tuple[str, ...] = ()) -> None:
    """Answer requests from the pipe until it closes, each candidate's in a process of its own.

    That needs a process without other threads to fork from. On macOS, and where importing MLX
    starts a GPU's driver, there is none.
    """
    succeeds = "processes" in confinement and bool(folders)
    held = (*confinement, "succession") if succeeds else confinement
    send_reply(pipe, Reply({"confinement": list(held)}))
    if not succeeds:
        serve_with(CandidateService().answer, pipe)
        return

    def serve_one(is_successor: bool) -> None:
        if is_successor:
            # Of its predecessor's request for one.
            send_reply(pipe, Reply({}))
        serve_with(CandidateService(succeeds=True).answer, pipe)

    run_in_succession(serve_one, folders)


def serve_with(answer: Callable[[Request], Reply], pipe: Connection) -> None:
    """Answer each request; an unforeseen exception becomes a reply too."""
    while True:
        try:
            request = cast("Request", receive_request(pipe))
        except EOFError:
            return
        except OutdatedError as e:
            send_reply(pipe, Reply({"failure": "request", "message": str(e)}))
            continue
        used = resource.getrusage(resource.RUSAGE_SELF)
        # A second line behind the parent's clock, for a parent that is itself stopped.
        soft = int(used.ru_utime + used.ru_stime) + _CPU_ALLOWANCE_S
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        try:
            reply = answer(request)
        except Exception:
            reply = Reply({"failure": "internal", "message": traceback.format_exc(limit=-3)})
        send_reply(pipe, reply)
