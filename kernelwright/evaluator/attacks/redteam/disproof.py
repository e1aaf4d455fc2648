"""An independent look at a program that was accepted: many more inputs, another way to compare.

The evaluator's own bounds, cases and stages take no part in it, lest one mistake hide in both. A
program is disproved by inputs on which MLX agrees with the float64 oracle, an honest program of the
task does too, and this program is off by far more than either.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.redteam.runner import Runner
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.shape import hidden_graphs, visible_graphs
from kernelwright.evaluator.oracle.reference import run_oracle
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.interpret import interpret
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

Mask = NDArray[np.bool_]
_FORGIVEN = 8.0
"""Times the tolerance, and MLX's own worst error, before a difference is called wrong."""
_ROW_OF_MLX = 4.0


class Disproof(Record):
    """Inputs on which a program is wrong, and how wrong."""

    case: str
    shapes: tuple[str, ...]
    output: int
    index: tuple[int, ...]
    expected: float
    found: float
    wrong_elements: int

    def __str__(self) -> str:
        return (
            f"output {self.output}{list(self.index)} is {self.found:g}, expected "
            f"{self.expected:g} ({self.wrong_elements} elements; {self.case})"
        )


@dataclass(frozen=True)
class Finding:
    """A disproof with its case, and the secret that draws it."""

    disproof: Disproof
    case: Case
    secret: str


@dataclass(frozen=True)
class Battery:
    """How much an accepted program is tried on before it is believed."""

    secrets: tuple[str, ...]
    seconds: float = 120.0
    most_elements: int = 1 << 22
    """Larger cases are left out."""

    @classmethod
    def of(cls, seed: int, secrets: int = 6, seconds: float = 120.0) -> "Battery":
        """Draw secrets that no evaluator had."""
        return cls(tuple(f"red team {seed} {i}" for i in range(secrets)), seconds)

    def cases(self, task: Task, program: Program) -> Iterator[tuple[Case, str]]:
        """Yield cases of every kind, at the task's shape and at others that the program serves."""
        for secret in self.secrets:
            config = EvaluatorConfig(secret=secret, generic_shapes=8)
            graphs = {
                g.fingerprint: g
                for g in (
                    task.graph,
                    *visible_graphs(task, program, config),
                    *hidden_graphs(task, program, config),
                )
            }
            for graph in graphs.values():
                if graph.element_count <= self.most_elements:
                    for kind in Distribution:
                        yield Case(graph, kind), secret


def disprove(
    task: Task, program: Program, honest: Program, battery: Battery, runner: Runner
) -> Finding | None:
    """Look for inputs on which a program is wrong and an honest one is not."""
    deadline = time.monotonic() + battery.seconds
    for case, secret in battery.cases(task, program):
        if time.monotonic() > deadline:
            break
        found = disprove_on(case, secret, program, honest, runner)
        if found is not None:
            return Finding(found, case, secret)
    return None


def disprove_on(
    case: Case, secret: str, program: Program, honest: Program, runner: Runner
) -> Disproof | None:
    """Compare two programs' outputs with the oracle on one case."""
    try:
        inputs = case.inputs(secret)
        expected = run_oracle(case.graph, inputs, clamp=None)
    except (IndexError, InputError):
        return None
    mlx = _mlx(case.graph, inputs)
    found = runner.outputs(program, case.graph, inputs)
    if found is None:
        # It crashed, hung or would not launch, where an honest program runs.
        honest_runs = runner.outputs(honest, case.graph, inputs) is not None
        return _lost(case) if honest_runs else None
    for place, (a, b, c) in enumerate(zip(found, expected, mlx, strict=True)):
        tolerance = Task(case.graph, "").output_tolerances[place]
        wrong = _wrong(a, b, c, tolerance.absolute, tolerance.relative)
        if not wrong.any():
            continue
        other = runner.outputs(honest, case.graph, inputs)
        if other is None:
            continue
        wrong &= ~_wrong(other[place], b, c, tolerance.absolute, tolerance.relative)
        if wrong.any():
            index = tuple(int(i[0]) for i in np.nonzero(wrong))
            return Disproof(
                case=case.name,
                shapes=case.shapes,
                output=place,
                index=index,
                expected=float(np.real(b[index])),
                found=float(np.real(a[index])),
                wrong_elements=int(wrong.sum()),
            )
    return None


def _lost(case: Case) -> Disproof:
    nan = float("nan")
    return Disproof(
        case=f"does not run: {case.name}",
        shapes=case.shapes,
        output=0,
        index=(),
        expected=nan,
        found=nan,
        wrong_elements=0,
    )


def _mlx(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    with mx.stream(mx.cpu):
        outputs = interpret(graph, *inputs)
        mx.eval(outputs)
        return tuple(np.asarray(_wide(array)) for array in outputs)


def _wide(array: mx.array) -> mx.array:
    """Return what NumPy can hold."""
    return array.astype(mx.float32) if array.dtype == mx.bfloat16 else array


def _wrong(found: Array, expected: Array, mlx: Array, absolute: float, relative: float) -> Mask:
    """Return where a result is wrong beyond all doubt.

    Where MLX itself is not near the oracle, nobody is blamed.
    """
    if found.shape != expected.shape:
        return np.ones(expected.shape, bool)
    if expected.dtype.kind != "f":
        agreed = np.asarray(mlx) == expected
        return np.asarray((found != expected) & agreed)
    a, b, c = (np.asarray(x).astype(np.float64) for x in (found, expected, mlx))
    with np.errstate(all="ignore"):
        allowed = absolute + relative * np.abs(b)
        off = np.abs(c - b)
        rows = np.where(np.isfinite(off), off, 0.0)
        worst = rows.max(axis=-1, keepdims=True) if rows.ndim and rows.size else rows
        bound = _FORGIVEN * allowed + _ROW_OF_MLX * worst
        is_number = np.isfinite(b) & np.isfinite(c)
        far = is_number & (~np.isfinite(a) | (np.abs(a - b) > bound))
        same_kind = (np.isnan(b) & np.isnan(c)) | (np.isinf(b) & (b == c))
        other_kind = same_kind & ~((np.isnan(a) & np.isnan(b)) | (a == b))
    return np.asarray(far | other_kind)
