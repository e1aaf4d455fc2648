"""A champion found elsewhere, tried on this machine's device at its first use.

It is compared with MLX on the inputs of a real call, timed against MLX, and kept or not. What a
call returns meanwhile is MLX's own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from kernelwright import ir
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.runtime.chain import Run, chained_us, mlx_chain
from kernelwright.store import MachineTrial

SECONDS = 0.1
"""Of timing, for each kernel that is tried."""
_LEAST_SPEEDUP = 1.02
"""Below it a kernel is no gain that a timing of a tenth of a second could show."""
_POISONED = 3
"""Buffers of each result's size that are filled: as many as a few kernels may have left."""
_SLACK = 4
"""Tolerances by which MLX's answer and the kernel's may differ: each has its own error."""
_ROTATION_BYTES, _MOST_COPIES = 128 << 20, 4


@dataclass(frozen=True)
class Candidate:
    """A kernel that may serve a region once it has passed here."""

    id: str
    run: RunRegion


@dataclass(frozen=True)
class Offer:
    """What is to be tried for one region of a graph."""

    region: Region
    task: Graph
    candidates: tuple[Candidate, ...]
    stands_for: str = ""
    """The task whose trial it is, where that of another size stands for it."""

    @property
    def trial_id(self) -> str:
        """The task under which its trial is remembered."""
        return self.stands_for or self.task.fingerprint


@dataclass(frozen=True)
class Verdict:
    """What became of one candidate."""

    candidate: str
    is_kept: bool
    reason: str
    has_same_bits: bool = False
    kernel_us: float | None = None
    mlx_us: float | None = None

    def trial(self, task_id: str, device: str, chip: str, runtime: str) -> MachineTrial:
        """Return it as the store keeps it."""
        return MachineTrial(
            task_id=task_id,
            candidate_id=self.candidate,
            device=device,
            chip=chip,
            runtime=runtime,
            is_kept=self.is_kept,
            has_same_bits=self.has_same_bits,
            kernel_us=self.kernel_us,
            mlx_us=self.mlx_us,
            reason=self.reason,
        )


def try_offer(
    offer: Offer, arrays: Sequence[mx.array], *, measures_time: bool, mlx: Run | None = None
) -> tuple[Verdict, ...]:
    """Try a region's candidates on the arrays of a real call; at most one of them is kept.

    `mlx` computes the region as MLX's user does, where that is not how the graph says it.
    """
    task = offer.task
    mlx = mlx or mlx_chain(task)
    expected = list(mlx(*arrays))
    mx.eval(expected)
    mlx_us: float | None = None
    sets = _copies(arrays)
    found: list[Verdict] = []
    for candidate in offer.candidates:
        verdict = _compared(candidate, task, arrays, expected)
        if verdict.is_kept and measures_time:
            if mlx_us is None:
                mlx_us = chained_us(task, mlx, sets, seconds=SECONDS)
            run = _compiled(candidate.run)
            kernel_us = chained_us(task, run, sets, seconds=SECONDS)
            # The second time, both are as warm as they will be.
            mlx_us = min(mlx_us, chained_us(task, mlx, sets, seconds=SECONDS / 2))
            verdict = _timed(verdict, kernel_us, mlx_us)
        found.append(verdict)
    return _best(found)


def _compiled(run: RunRegion) -> Callable[..., Sequence[mx.array]]:
    return mx.compile(lambda *given: list(run(given)))


def _compared(
    candidate: Candidate, task: Graph, arrays: Sequence[mx.array], expected: Sequence[mx.array]
) -> Verdict:
    try:
        poison_freed(expected)
        made = list(candidate.run(arrays))
        mx.eval(made)
    except Exception as e:
        # Compilers and drivers raise what they like; MLX's own result is at hand.
        return Verdict(candidate.id, False, f"it does not run here: {str(e)[:200]}")
    coarsest = max((Tolerance.of(t.dtype) for t in task.types), key=lambda t: t.relative)
    for place, (found, right) in enumerate(zip(made, expected, strict=True)):
        if found.shape != right.shape or found.dtype != right.dtype:
            return Verdict(candidate.id, False, f"output {place} has another shape or dtype")
        if not is_close(found, right, coarsest):
            return Verdict(candidate.id, False, f"output {place} is not what MLX computes")
    same = all(mx.array_equal(a, b, equal_nan=True) for a, b in zip(made, expected, strict=True))
    return Verdict(candidate.id, True, "as MLX computes it", same)


def poison_freed(right: Sequence[mx.array]) -> None:
    """Fill the buffers that a next result may get, so that none holds what MLX computed before."""
    kinds = [array for array in right for _ in range(_POISONED)]
    wrong = [
        mx.full(a.shape, math.nan if mx.issubdtype(a.dtype, mx.floating) else 113, dtype=a.dtype)
        for a in kinds
    ]
    mx.eval(wrong)
    del wrong


def is_close(found: mx.array, right: mx.array, tolerance: Tolerance) -> bool:
    """Say whether a result may stand for another; each has its own rounding error."""
    if not mx.issubdtype(right.dtype, mx.floating):
        return bool(mx.array_equal(found, right))
    one, other = found.astype(mx.float32), right.astype(mx.float32)
    finite = mx.isfinite(other)
    if not mx.array_equal(finite, mx.isfinite(one)):
        return False
    if not mx.array_equal(mx.where(finite, 0, one), mx.where(finite, 0, other), equal_nan=True):
        return False
    size = mx.abs(mx.where(finite, other, 0))
    # Of a sum whose terms cancel the error is that of its terms, which are as large as others.
    usual = mx.sqrt(mx.mean(mx.square(size)))
    allowed = _SLACK * (tolerance.absolute + tolerance.relative * (size + usual))
    return bool(mx.all(mx.abs(mx.where(finite, one - other, 0)) <= allowed))


def _timed(verdict: Verdict, kernel_us: float, mlx_us: float) -> Verdict:
    is_faster = mlx_us >= _LEAST_SPEEDUP * kernel_us
    words = f"{kernel_us:.1f} us where MLX takes {mlx_us:.1f} us"
    return Verdict(verdict.candidate, is_faster, words, verdict.has_same_bits, kernel_us, mlx_us)


def _best(found: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Keep the fastest of those that may stay."""
    kept = [verdict for verdict in found if verdict.is_kept]
    if len(kept) < 2:
        return tuple(found)
    best = min(kept, key=lambda verdict: verdict.kernel_us or 0.0)
    return tuple(
        verdict
        if verdict is best or not verdict.is_kept
        else Verdict(
            verdict.candidate,
            False,
            f"{verdict.reason}, and another is faster",
            verdict.has_same_bits,
            verdict.kernel_us,
            verdict.mlx_us,
        )
        for verdict in found
    )


def _copies(arrays: Sequence[mx.array]) -> list[list[mx.array]]:
    """Return the inputs several times over, so that no cache holds what a model would not."""
    nbytes = max(sum(array.nbytes for array in arrays), 1)
    count = min(max(_ROTATION_BYTES // nbytes, 1), _MOST_COPIES)
    sets = [list(arrays), *([mx.contiguous(a) + 0 for a in arrays] for _ in range(count - 1))]
    mx.eval(sets)
    return sets


def capturing(
    offers: Sequence[Offer], seen: dict[Region, list[mx.array]]
) -> dict[Region, RunRegion]:
    """Return runs of regions that compute as MLX does and note what they were given."""

    def noting(offer: Offer) -> RunRegion:
        def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            seen[offer.region] = list(arrays)
            return ir.interpret(offer.task, *arrays)

        return run

    return {offer.region: noting(offer) for offer in offers}
