"""Every candidate of a task over its chip's roofline."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from kernelwright.errors import InputError
from kernelwright.evaluator.gain import predicted_chip
from kernelwright.metal.device.base import Counters, DeviceInfo
from kernelwright.metal.perf import ChipProfile, find_profile
from kernelwright.service.api.record import Roofline, RooflinePoint
from kernelwright.store import KernelStore
from kernelwright.store.browsing import StoredEvaluation

MOST_POINTS = 2_000
_MATRIX_FLOPS = 2 * 8 * 8 * 8


class _Figures(NamedTuple):
    chip: str
    kind: Literal["measured", "predicted"]
    microseconds: float
    flops: int
    nbytes: int


def roofline(store: KernelStore, task_id: str, champions: Iterable[str]) -> Roofline | None:
    """Return a task's candidates as points; None where nothing was counted.

    Candidates are drawn over the roof of the chip that most of them were timed on, each once, as
    its best evaluation there; measured and predicted times keep their names.
    """
    known: dict[tuple[str, str], tuple[StoredEvaluation, _Figures]] = {}
    found = store.browse.evaluations(task_id, limit=MOST_POINTS)
    for evaluation in found:
        if (figures := _figures(evaluation)) is not None:
            known.setdefault((figures.chip, evaluation.candidate_id), (evaluation, figures))
    chips = Counter(chip for chip, _ in known)
    if not chips:
        return None
    profile = find_profile(chips.most_common(1)[0][0])
    promoted = set(champions)
    points = [_point(e, f, promoted) for e, f in known.values() if f.chip == profile.name]
    return Roofline(
        chip=profile.name,
        peak_gflops=profile.float_tflops * 1000,
        bandwidth_gb_s=profile.bandwidth_gb_s,
        points=tuple(points),
        total=store.browse.ranked_candidates(task_id)
        if len(found) == MOST_POINTS
        else len({candidate_id for _, candidate_id in known}),
    )


def _point(evaluation: StoredEvaluation, figures: _Figures, promoted: set[str]) -> RooflinePoint:
    return RooflinePoint(
        candidate_id=evaluation.candidate_id,
        author=evaluation.author,
        idea=evaluation.idea,
        intensity=figures.flops / figures.nbytes,
        gflops=figures.flops / (figures.microseconds * 1000),
        microseconds=figures.microseconds,
        kind=figures.kind,
        is_champion=evaluation.candidate_id in promoted,
    )


_KNOWN: dict[str, _Figures | None] = {}
"""What was read already, by the evaluations' ids: evaluations do not change."""
_MOST_KNOWN = 20 * MOST_POINTS


def _figures(evaluation: StoredEvaluation) -> _Figures | None:
    if evaluation.id not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[evaluation.id] = _read(evaluation.body)
    return _KNOWN[evaluation.id]


def _read(body: str) -> _Figures | None:
    """Read the few figures that a point needs out of a long evaluation."""
    told = json.loads(body)
    device = DeviceInfo.model_validate(told["device"])
    measured, predicted = told.get("measured_us"), told.get("predicted_us")
    microseconds = measured or predicted
    profile = _profile(device)
    counted = [Counters.model_validate(c) for c in told.get("counters") or ()]
    if not microseconds or not counted or profile is None:
        return None
    flops = sum(
        c.float_operations + c.special_operations + _MATRIX_FLOPS * c.matrix_operations
        for c in counted
    )
    nbytes = sum(b.unique_bytes_read + b.unique_bytes_written for c in counted for b in c.buffers)
    if not flops or not nbytes:
        return None
    kind: Literal["measured", "predicted"] = "measured" if measured else "predicted"
    return _Figures(profile.name, kind, microseconds, flops, nbytes)


def _profile(device: DeviceInfo) -> ChipProfile | None:
    try:
        return find_profile(device.bare_chip if device.measures_time else predicted_chip(device))
    except InputError:
        return None
