"""Candidates and baselines timed side by side by MLX, on an Apple or NVIDIA GPU."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import mlx.core as mx
import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.speed.timing import (
    Arm,
    Bench,
    Clock,
    Measurements,
    Order,
    Session,
    slots_for,
)
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.executable import Array, Device
from kernelwright.metal.device.execution import MlxExecutable, poisoned
from kernelwright.metal.kernel import Kernel, Program, Tensor

Function = Callable[..., list[mx.array]]
"""Takes MLX arrays, returns unevaluated outputs."""
_WAITING_BYTES = 4 << 30
"""Outputs that may wait for one synchronisation: they are allocated when they are queued."""
_READ_PER_THREAD = 64
"""Elements that a thread of the reading kernel sums up, in 16-byte words."""


class SystemClock:
    """The process's monotonic clock."""

    def now_s(self) -> float:
        """Return seconds since a fixed moment."""
        return time.perf_counter()


@dataclass
class MlxArm:
    """A function of MLX arrays, with inputs of its own in every slot."""

    name: str
    function: Function
    inputs: Sequence[Sequence[mx.array]]
    output_bytes: int
    buffers: Sequence[TensorType] = ()
    """What a launch allocates: buffers of these sizes are poisoned before it is timed."""
    _last: dict[int, list[mx.array]] = field(default_factory=dict)
    _pending: list[tuple[int, list[mx.array]]] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """Return how many sets of inputs are on the device."""
        return len(self.inputs)

    def prepare(self, slots: Sequence[int]) -> None:
        """Build the graphs; nothing of them runs, or is allocated, before they are evaluated.

        What earlier launches left is forgotten, and its memory poisoned: it may be recycled, with
        the right answers of the same inputs in it.
        """
        for slot in slots:
            self._last.pop(slot, None)
        self._poison(len(slots))
        self._pending = [(slot, self.function(*self.inputs[slot])) for slot in slots]

    def _poison(self, launches: int) -> None:
        size = max(sum(t.nbytes for t in self.buffers), 1)
        count = min(launches, max(_WAITING_BYTES // size, 1)) if self.buffers else 0
        mx.eval([poisoned(self.buffers) for _ in range(count)])

    def launch(self, slots: Sequence[int]) -> None:
        """Queue evaluations of different inputs, and wait once what they make fills a memory."""
        size = min(self.slots, max(1, _WAITING_BYTES // max(self.output_bytes, 1)))
        waiting = 0
        for first in range(0, len(slots), size):
            pending = self._pending[first : first + size]
            mx.async_eval([outputs for _, outputs in pending])  # type: ignore[no-untyped-call]
            self._last.update(pending)
            waiting += len(pending) * self.output_bytes
            if waiting >= _WAITING_BYTES:
                mx.synchronize()
                waiting = 0
        mx.synchronize()
        self._pending = []

    def outputs(self, slot: int) -> tuple[Array, ...]:
        """Return what the last launch on a slot's inputs left."""
        return tuple(to_numpy(array) for array in self._last[slot])

    def forget(self) -> None:
        """Drop what launches left."""
        self._last.clear()


@dataclass
class MlxLaboratory:
    """Times one candidate on one GPU in this process."""

    device: Device
    candidate: Function
    baselines: Mapping[str, Function]
    make_inputs: Callable[[int], Sequence[mx.array]]
    """Inputs of a slot, different in every slot; fresh arrays at each call."""
    plan: TimingPlan
    input_bytes: int
    output_bytes: int
    buffers: Sequence[TensorType] = ()
    """What a launch of the candidate allocates."""
    seed: int = 0
    clock: Clock = field(default_factory=SystemClock)
    _session: Session | None = None

    def make_ready(self) -> None:
        """Fill the slots and compile the bench's own kernels, so that nothing is left but time."""
        self._reader()
        _ = self.session
        mx.clear_cache()

    @property
    def session(self) -> Session:
        """The bench, made once."""
        if self._session is None:
            random = np.random.default_rng(self.seed)
            self._session = Session(self._bench(), self.plan, random)
        return self._session

    def measure(self, order: Order) -> Measurements:
        """Carry out an order; what it took of the device's memory is free for others then."""
        measured = self.session.measure(order)
        bench = self.session.bench
        for arm in (bench.candidate, *bench.baselines, bench.canary, bench.empty):
            if isinstance(arm, MlxArm):
                arm.forget()
        mx.clear_cache()
        return measured

    def bytes_per_s(self) -> float:
        """Measure what a large copy or a large sum moves, whichever is more."""
        reader = MlxArm("read", self._reader(), self._copies(), 4)
        # Some chips read faster than they copy, and a reduction may rightly do so.
        return max(self.copy_bytes_per_s(), self.plan.copy_bytes / self._quickest_s(reader))

    def _reader(self) -> Function:
        return own_kernel(self.device, "read", self.plan.copy_bytes // 4)

    def copy_bytes_per_s(self) -> float:
        """Measure what a large copy moves, reads and writes counted."""
        return 2 * self.plan.copy_bytes / self._quickest_s(self.session.bench.canary)

    def _quickest_s(self, arm: Arm) -> float:
        """Return the best of several: what memory can do, not what the host let it do."""
        self.session.repeats(arm)
        times = []
        for _ in range(10):
            arm.prepare([0, 1] * 4)
            began = self.clock.now_s()
            arm.launch([0, 1] * 4)
            times.append((self.clock.now_s() - began) / 8)
        return max(min(times), 1e-9)

    def _bench(self) -> Bench:
        if not self.baselines:
            raise DeviceError("expected a baseline to time against, found none; give eager MLX.")
        slots = slots_for(self.plan, self.input_bytes, self.output_bytes)
        inputs = _copied([self.make_inputs(slot) for slot in range(slots)])
        made = self.output_bytes
        arms = [MlxArm(name, f, inputs, made, self.buffers) for name, f in self.baselines.items()]
        first = arms[0]
        copied = own_kernel(self.device, "copy", self.plan.copy_bytes // 4)
        return Bench(
            clock=self.clock,
            candidate=MlxArm("candidate", self.candidate, inputs, made, self.buffers),
            baselines=tuple(arms),
            canary=MlxArm("canary", copied, self._copies(), self.plan.copy_bytes),
            make_twin=lambda: MlxArm("twin", first.function, _copied(inputs), made, self.buffers),
            empty=MlxArm("empty", own_kernel(self.device, "empty", 1), [[mx.zeros(1)]], 4),
        )

    def _copies(self) -> list[list[mx.array]]:
        copies = [[mx.full((self.plan.copy_bytes // 4,), float(i))] for i in range(2)]
        mx.eval(copies)
        return copies


def _copied(slots: Sequence[Sequence[mx.array]]) -> list[list[mx.array]]:
    """Return the same bits in new buffers, which the device itself fills.

    From the host, each twin's would be another hundred megabytes. A candidate's and a baseline's
    inputs are copies too, so that all lie in the same kind of memory.
    """
    arrays = [[mx.where(True, array, array) for array in slot] for slot in slots]
    mx.eval(arrays)
    return arrays


_OWN: WeakKeyDictionary[Device, dict[tuple[str, int], Function]] = WeakKeyDictionary()
"""The bench's own kernels, by device, name and size."""


def own_kernel(device: Device, name: str, elements: int) -> Function:
    """Return a kernel of the bench itself, which no candidate waits for but the first.

    Args:
        device: Where it runs.
        name: `copy`, `read` or `empty`.
        elements: Of its only input, in float32.
    """
    own = _OWN.setdefault(device, {})
    if (name, elements) not in own:
        own[name, elements] = _compiled(device, name, elements)
    return own[name, elements]


def _compiled(device: Device, name: str, elements: int) -> Function:
    program = _PROGRAMS[name](elements)
    type_ = TensorType(tuple(int(e) for e in program.inputs[0].shape), Dtype.FLOAT32)
    executable = device.compile(program.bind([type_]))
    if not isinstance(executable, MlxExecutable):
        raise DeviceError(f"the {device.info.name} device measures no time.")
    return mx.compile(lambda *arrays: executable.graph(arrays))


def copy_program(elements: int) -> Program:
    """Copy in 16-byte words: what memory can do, and the canary for drift."""
    return _one_kernel(
        "copy",
        elements,
        "uint i = thread_position_in_grid.x;\n"
        "((device float4*)y)[i] = ((const device float4*)x)[i];",
        threads=elements // 4,
    )


def read_program(elements: int) -> Program:
    """Sum up in 16-byte words: what memory can do where next to nothing is written."""
    threads = max(elements // _READ_PER_THREAD, 1)
    return _one_kernel(
        "read",
        elements,
        f"uint i = thread_position_in_grid.x;\n"
        f"float4 sum = 0.0f;\n"
        f"for (uint k = 0; k < {_READ_PER_THREAD // 4}; ++k) {{\n"
        f"  sum += ((const device float4*)x)[k * {threads} + i];\n"
        f"}}\n"
        f"y[i] = sum.x + sum.y + sum.z + sum.w;",
        threads=threads,
        results=threads,
    )


def empty_program(elements: int) -> Program:
    """Write one element: the floor under every launch."""
    return _one_kernel(
        "empty", elements, "if (thread_position_in_grid.x == 0) y[0] = 0.0f;", threads=32
    )


def _one_kernel(
    name: str, size: int, source: str, *, threads: int, results: int | None = None
) -> Program:
    kernel = Kernel(
        name=name,
        inputs=("x",),
        outputs=("y",),
        source=source,
        grid=(threads, 1, 1),
        threadgroup=(min(threads, 256), 1, 1),
    )
    array = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(size,))
    made = array.model_copy(update={"name": "y", "shape": (results or size,)})
    return Program(inputs=(array,), outputs=(made,), kernels=(kernel,))


_PROGRAMS: Mapping[str, Callable[[int], Program]] = {
    "copy": copy_program,
    "read": read_program,
    "empty": empty_program,
}
