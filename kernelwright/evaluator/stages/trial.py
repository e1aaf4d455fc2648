"""One program before one device: compile it, run it, and turn what happens into findings."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.diagnose.location import first_bad, locate
from kernelwright.evaluator.evaluation import InputValue, Mismatch, Status
from kernelwright.evaluator.oracle.accuracy import Deviation
from kernelwright.evaluator.oracle.reference import Reference, judge
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections
from kernelwright.evaluator.oracle.swept_rows import SweptRows
from kernelwright.evaluator.speed.measuring import Measure, MeasureBandwidth
from kernelwright.evaluator.stages.facts import Superseded
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.evaluator.worker.service import (
    Compile,
    CompileAhead,
    Request,
    Run,
    RunParts,
    result_of,
)
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import FastError, ForcedCondition, RunOptions
from kernelwright.metal.device.executable import Array, RunResult
from kernelwright.metal.diagnostic import Diagnostic, ReportKind, SanitizerReport
from kernelwright.metal.kernel import Program

POISONS = (0xFF, 0x50)
"""A NaN in every float format, and a large ordinary number: both cannot be right by chance."""
_COMPILE_SLACK_S = 2.0
_BUSY_COMPILE_SLACK_S = 60.0
"""A machine with eight others at work compiles what a run needs besides."""
_MOST_JUDGED = 4
"""Parts of a sweep that differ from MLX's answer and are judged: one that is wrong is enough."""
_PATIENCE = 24
"""More than the simulator's own."""

BEYOND_THE_SIMULATOR = (Status.TIMEOUT, Status.OUT_OF_MEMORY, Status.CRASHED)
"""What may end a run there that a GPU finishes."""
_RUNS = (Run, RunParts)
_TIMED = (MeasureBandwidth, Measure)


class Turn(Protocol):
    """Waits until the device may be used, and keeps it meanwhile."""

    def __call__(self, *, alone: bool) -> AbstractContextManager[None]:
        """Wait until nobody uses it, or until nobody uses it `alone`."""


def at_once(*, alone: bool) -> AbstractContextManager[None]:
    """Wait for nobody: the device is this trial's."""
    return nullcontext()


_NO_VERDICT = (
    "a run did not come to its end in {timeout_s:g} s, which leaves it without a verdict; try "
    "again when the machine is less busy."
)


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 (a verdict on its way up, caught by the evaluator alone)
    """Why a candidate does not pass; becomes its evaluation."""

    status: Status
    summary: str
    diagnostics: tuple[Diagnostic, ...] = ()
    reports: tuple[SanitizerReport, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    reference: Reference | None = None
    """The case that failed, when one did."""
    lost_worker: bool = False


@dataclass
class Trial:
    """Runs one program in a worker; every misdeed of the program raises `Failure`."""

    worker: Worker
    program: Program
    config: EvaluatorConfig
    turn: Turn = at_once
    """Taken for each launch, and alone for what is timed; the host's work in between keeps nobody,
    the compiling of MLX's kernels among it, which launch once before they are timed."""
    halt: Event = field(default_factory=Event)
    """Once it is set, nothing more is asked of the program here."""
    _compiled: set[str] = field(default_factory=set)

    def compile(self, graph: Graph, *, sanitize: bool = False) -> str:
        """Compile for the graph's shapes, once; return the key to run it by."""
        key = f"{graph.fingerprint}{'+sanitize' if sanitize else ''}"
        if key not in self._compiled:
            bound = self.program.bind(graph.input_types)
            self.call(Compile(key, bound, sanitize), self.config.compile_timeout_s)
            self._compiled.add(key)
        return key

    def compile_ahead(self, graphs: Sequence[Graph]) -> None:
        """Have the worker compile for several shapes at once; errors wait for each one's turn."""
        new = {g.fingerprint: g for g in graphs if g.fingerprint not in self._compiled}
        if not new:
            return
        programs = tuple(Compile(k, self.program.bind(g.input_types)) for k, g in new.items())
        self.call(CompileAhead(programs), self.config.compile_timeout_s * len(programs))

    def run(
        self,
        reference: Reference,
        *,
        seed: int = 0,
        sanitize: bool = False,
        count: bool = False,
        counts_all: bool = False,
        sampled_by: str = "",
        fast_error: FastError = "usual",
        watch: bool = False,
        forced: tuple[ForcedCondition, ...] = (),
        timeout_s: float | None = None,
    ) -> RunResult:
        """Run once on a case, poisoned and fenced; the seed picks poison and thread order."""
        options = RunOptions(
            poison=self._poison(seed),
            padding_seed=self._drawn(f"padding {reference.case.name}", seed) + 1,
            # The first order is the natural one, which runs faster; nobody knows the others.
            order_seed=self._drawn("order", seed) + 1 if seed else 0,
            fast_error=fast_error,
            sanitize=sanitize,
            count=count,
            sample_seed=self._sample_seed(seed, sampled_by) if count else 0,
            counts_all=counts_all,
            watch=watch,
            forced=forced,
            timeout_s=timeout_s or self.config.run_timeout_s,
        )
        result = self._launch(reference, options)
        check_fences(result, reference, options.poison)
        return result

    def watch(self, graph: Graph, inputs: tuple[Array, ...], timeout_s: float) -> RunResult:
        """Note which sides of its conditions the program takes on any inputs; judge nothing."""
        key = self.compile(graph)
        self.worker.held.forget("latest")
        options = RunOptions(watch=True, timeout_s=timeout_s)
        return _read_result(self._asked(Run(key, inputs, options)))

    def _asked(self, request: Run) -> Reply:
        """Run; what gets too little processor time for a short limit runs again with the usual one.

        Raises:
            Failure: the program fails.
            DeviceError: it gets too little even so.
        """
        usual_s = self.config.run_timeout_s
        try:
            return self.call(request, self._patience_s)
        except DeviceError:
            if request.options.timeout_s >= usual_s:
                raise
        options = request.options.model_copy(update={"timeout_s": usual_s})
        return self.call(replace(request, options=options), self._patience_s)

    def run_parts(self, rows: SweptRows) -> RunResult:
        """Run once on each part of a sweep; outputs hold the parts' one after the other."""
        options = RunOptions(
            poison=POISONS[0],
            padding_seed=self._drawn(f"padding {rows.case.name}", len(rows.parts)) + 1,
            timeout_s=self.config.run_timeout_s,
        )
        key = self.compile(rows.case.graph)
        reply = self.call(RunParts(key, rows.inputs, rows.moves, options), self._patience_s)
        return _read_result(reply)

    def _sample_seed(self, seed: int, sampled_by: str) -> int:
        """Return what draws the threadgroups that are counted: nothing that a program can know."""
        text = f"{sampled_by or self.config.secret}|counted threadgroups|{self.program.id}|{seed}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    def _poison(self, seed: int) -> int:
        """Return a NaN in every float format, or by the secret a large ordinary number."""
        chosen = POISONS[seed % len(POISONS)]
        return chosen if chosen == POISONS[0] else POISONS[1] + self._drawn("poison", seed) % 0x20

    def _drawn(self, purpose: str, seed: int) -> int:
        """Return a number of 32 bits that nobody knows who does not know the secret."""
        text = f"{self.config.secret}|{purpose}|{seed}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest())

    def _launch(self, reference: Reference, options: RunOptions) -> RunResult:
        key = self.compile(reference.case.graph, sanitize=options.sanitize)
        held, inputs = self.worker.held, reference.inputs
        known = held.shelf_with(inputs)
        shelf = known or held.shelf_for(inputs)
        # Nobody knows what a worker has that fails on the way.
        held.forget(shelf)
        request = Run(key, None if known else inputs, options, reference.case.layout, shelf)
        try:
            reply = self._asked(request)
            held.put(shelf, inputs)
        except Failure as failure:
            if failure.status is Status.LAUNCH_ERROR:
                failure.reference = reference
            raise
        return _read_result(reply)

    @property
    def _patience_s(self) -> float:
        """How long a run may keep its process: on the simulator, until that ends it by itself.

        A launch there has a budget of work, and a clock on the wall that says nothing of it.
        """
        if self.worker.drives_gpu:
            return self.config.run_timeout_s + _COMPILE_SLACK_S
        return _PATIENCE * self.config.run_timeout_s + _BUSY_COMPILE_SLACK_S

    def judge_straying(self, reference: Reference) -> None:
        """Compare what hangs on no index that is out of range.

        The task's own code reads outside of its arrays there, so the program may as well: the
        sanitizer gives it NaN, and what becomes NaN by that is not compared.
        """
        options = RunOptions(sanitize=True, timeout_s=self.config.run_timeout_s)
        result = self._launch(reference, options)
        reports = tuple(r for r in result.reports if not r.is_stray_read)
        strayed = len(reports) < len(result.reports)
        outputs = result.outputs
        if strayed:
            pairs = zip(outputs, reference.expected_outputs, strict=False)
            outputs = tuple(_without_nan(output, y.expected) for output, y in pairs)
        judged = result.model_copy(update={"reports": reports, "outputs": outputs})
        check_fences(judged, reference, options.poison)
        check_answer(judged, reference)

    def call(self, request: Request, timeout_s: float) -> Reply:
        """Send a request; what goes wrong is the candidate's `Failure` unless a machine failed.

        The simulator's own budget ends what does too much; what its process is lost over instead
        is a machine that is too busy.

        Raises:
            Superseded: an earlier stage has refused the program meanwhile.
        """
        if self.halt.is_set():
            raise Superseded
        is_timed = isinstance(request, _TIMED)
        uses_device = is_timed or isinstance(request, _RUNS)
        try:
            with self.turn(alone=is_timed) if uses_device else nullcontext():
                reply = self.worker.call(request, timeout_s)
        except WorkerLost as e:
            if e.loss == "timeout" and not self.worker.drives_gpu and isinstance(request, _RUNS):
                raise DeviceError(_NO_VERDICT.format(timeout_s=timeout_s)) from e
            raise _of_loss(e, timeout_s) from e
        if reply.failure:
            raise _of_reply(reply)
        return reply


def _read_result(reply: Reply) -> RunResult:
    try:
        return result_of(reply)
    except ValidationError as e:
        raise Failure(Status.CRASHED, "the worker's answer is damaged.", lost_worker=True) from e


def explain(failure: Failure, trial: Trial) -> Failure:
    """Return what the sanitizer of `trial` says of a run that strayed, else the failure itself."""
    strayed = failure.status in (Status.UNSAFE, Status.LAUNCH_ERROR)
    if not strayed or failure.reports or failure.reference is None or not trial.worker.is_alive:
        return failure
    try:
        trial.run(failure.reference, sanitize=True)
    except Failure as found:
        return found if found.reports else failure
    return failure


def _of_loss(loss: WorkerLost, timeout_s: float) -> Failure:
    if loss.loss == "timeout":
        summary = f"the kernel did not end within {timeout_s:g} s; bound its loops."
        return Failure(Status.TIMEOUT, summary, lost_worker=True)
    if "MemoryError" in str(loss) or "bad_alloc" in str(loss):
        return Failure(Status.OUT_OF_MEMORY, f"memory ran out: {loss}.", lost_worker=True)
    return Failure(Status.CRASHED, f"the kernel took its process down: {loss}.", lost_worker=True)


def _of_reply(reply: Reply) -> Failure:
    """Turn a service's failure into a verdict.

    Raises:
        DeviceError: the machine failed, not the candidate.
    """
    message = str(reply.header.get("message", ""))
    if reply.failure == "compile":
        raw = reply.header.get("diagnostics")
        diagnostics = tuple(
            Diagnostic.model_validate(d) for d in (raw if isinstance(raw, list) else [])
        )
        first = diagnostics[0].message if diagnostics else message
        return Failure(Status.COMPILE_ERROR, f"does not compile: {first}", diagnostics)
    if reply.failure == "launch":
        late = "did not end" in message
        status = Status.TIMEOUT if late else Status.LAUNCH_ERROR
        # What was interrupted anywhere may have left its process in any state.
        is_spoilt = late or bool(reply.header.get("is_spoilt"))
        return Failure(status, message, lost_worker=is_spoilt)
    if reply.failure == "memory":
        return Failure(Status.OUT_OF_MEMORY, message, lost_worker=True)
    if reply.failure == "input":
        return Failure(Status.MALFORMED, message)
    if reply.failure == "internal":
        last = message.strip().rpartition("\n")[2]
        summary = f"the evaluator cannot judge this program: {last[:300]}"
        return Failure(Status.CRASHED, summary, lost_worker=True)
    if reply.failure == "request":
        raise reply.machine_error()
    raise reply.machine_error("the device failed, not the candidate: ")


def check_fences(result: RunResult, reference: Reference, poison: int) -> None:
    """Refuse a run that wrote where it must not, or that the sanitizer reported."""
    case = f"case {reference.case.name}"
    if result.reports:
        first = result.reports[0]
        where = _unwritten(result, poison) if first.kind is ReportKind.UNWRITTEN_OUTPUT else ""
        more = f" (and {len(result.reports) - 1} more)" if len(result.reports) > 1 else ""
        summary = f"{first}{where}{more}"
        raise Failure(Status.UNSAFE, summary, reports=result.reports, reference=reference)
    if not all(result.canaries_intact):
        place = result.canaries_intact.index(False)
        summary = f"wrote outside output {place} ({case}); guard the last threads."
        raise Failure(Status.UNSAFE, summary, reference=reference)
    if not result.inputs_intact:
        raise Failure(Status.UNSAFE, f"changed an input ({case}).", reference=reference)


def _without_nan(output: Array, expected: Array) -> Array:
    """Put what is right in place of NaN."""
    if output.shape != expected.shape:
        return output
    return np.where(output != output, expected, output).astype(output.dtype)


def _unwritten(result: RunResult, poison: int) -> str:
    """Say in words where an output still holds the poison."""
    for output in result.outputs:
        raw = np.frombuffer(output.tobytes(), np.uint8).reshape(output.size, -1)
        left = np.asarray((raw == poison).all(axis=1)).reshape(output.shape)
        if left.any():
            return f": {locate(left)}"
    return ""


def check_answer(result: RunResult, reference: Reference) -> tuple[Deviation, ...]:
    """Measure a run's outputs and refuse a wrong one, saying where it is wrong."""
    if len(result.outputs) != len(reference.expected_outputs):
        wanted = len(reference.expected_outputs)
        summary = f"gave {len(result.outputs)} outputs, the task has {wanted}."
        raise Failure(Status.WRONG, summary, reference=reference)
    deviations = judge(reference, result.outputs)
    mismatches = tuple(
        _mismatch(place, deviation, result, reference)
        for place, deviation in enumerate(deviations)
        if not deviation.is_acceptable
    )
    if mismatches:
        first, problem = mismatches[0], deviations[mismatches[0].output].problem
        summary = f"output {first.output} {problem}: {first.words} ({first.case})."
        raise Failure(Status.WRONG, summary, mismatches=mismatches, reference=reference)
    return deviations


def check_swept(trial: Trial, rows: SweptRows) -> None:
    """Judge the parts of a sweep in which a program gives something else than MLX."""
    result = trial.run_parts(rows)
    if len(result.outputs) != len(rows.answers):
        return
    for part in rows.differing(result.outputs)[:_MOST_JUDGED]:
        reference = rows.reference(part)
        if not reference.dropped:
            check_answer(trial.run(reference), reference)


def add_directions(
    directions: RoundingDirections, reference: Reference, outputs: Sequence[Array]
) -> None:
    """Count how a case's right outputs were rounded, beside MLX's own."""
    of_mlx = [answer.computed for answer in reference.allclose_answers()]
    wanted, inputs = reference.expected_outputs, reference.inputs
    directions.add(outputs, wanted, of_mlx, reference.samples, inputs)


def check_directions(directions: RoundingDirections) -> None:
    """Refuse a program whose elements are right one by one, and all rounded one way."""
    if problem := directions.problem:
        raise Failure(Status.WRONG, problem)


def _mismatch(
    place: int, deviation: Deviation, result: RunResult, reference: Reference
) -> Mismatch:
    found, expected = result.outputs[place], reference.expected_outputs[place].expected
    words = "its shape or dtype"
    index: tuple[int, ...] = ()
    values: Sequence[float | None] = (None, None)
    if found.shape == expected.shape and deviation.bad.any():
        words, index = locate(deviation.bad), first_bad(deviation.bad)
        if found.dtype.kind != "c":
            values = (float(expected[index]), float(found[index]))
    return Mismatch(
        output=place,
        words=words,
        shapes=reference.case.shapes,
        case=reference.case.name,
        expected=values[0],
        found=values[1],
        index=index,
        inputs=()
        if reference.case.is_hidden
        else tuple(_values_at(index, found, expected, reference)),
    )


def _values_at(
    index: tuple[int, ...], found: Array, expected: Array, reference: Reference
) -> Iterator[InputValue]:
    """Yield what inputs hold where an output is wrong, and what of its row may be the cause."""
    for number, array in enumerate(reference.inputs):
        if array.size > 1 and array.dtype.kind != "c":
            places = dict.fromkeys(
                (*_same_place(index, found, array), *_in_its_row(index, found, expected, array))
            )
            for place in places:
                yield InputValue(input=number, index=place, value=float(array[place]))


def _same_place(index: tuple[int, ...], output: Array, array: Array) -> Iterator[tuple[int, ...]]:
    """Yield an index of an input that may be broadcast to an output."""
    own = index[len(index) - array.ndim :]
    axes = zip(array.shape, output.shape[output.ndim - array.ndim :], strict=False)
    if array.ndim <= len(index) and all(size in (1, whole) for size, whole in axes):
        yield tuple(0 if n == 1 else i for n, i in zip(array.shape, own, strict=True))


def _in_its_row(
    index: tuple[int, ...], output: Array, expected: Array, array: Array
) -> Iterator[tuple[int, ...]]:
    """Yield the places of a row that an output names or should name, and one that is no number.

    An order or a place among equals is wrong by what stands at both.
    """
    lead = array.shape[:-1]
    if lead != output.shape[: len(lead)] or len(lead) > len(index):
        return
    row = index[: len(lead)]
    if output.dtype.kind in "iu":
        for place in (int(expected[index]), int(output[index])):
            if 0 <= place < array.shape[-1]:
                yield (*row, place)
    is_number = bool(np.isfinite(expected[index]) and np.isfinite(output[index]))
    if array.dtype.kind not in "biu" and (output.dtype.kind in "iu" or not is_number):
        special = np.flatnonzero(~np.isfinite(array[row].astype(np.float32)))
        yield from ((*row, int(place)) for place in special[:1])
