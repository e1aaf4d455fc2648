"""Says before a search what an export of its functions would refuse."""

from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper

from kernelwright.campaign import Subject
from kernelwright.campaign.planning.capturing import CapturedFunction
from kernelwright.runtime.export import export_obstacle
from kernelwright.service.export_source import target_of

_LARGEST = 1000
"""Operations of a function whose export is tried in seconds; a search does not wait for more."""


def export_remarks(functions: Iterable[CapturedFunction]) -> Iterator[str]:
    """Yield a sentence for each function whose kernels could not be exported, with its line."""
    by_name: dict[str, list[Subject]] = {}
    for function in functions:
        if len(function.graph.nodes) <= _LARGEST:
            by_name.setdefault(function.subject.name, []).append(function.subject)
    for name, found in by_name.items():
        if reason := _obstacle(name, found):
            yield f"{name}: `kernelwright export` will refuse it: {reason}"


def _obstacle(name: str, subjects: list[Subject]) -> str:
    target = target_of(name, subjects, ())
    sink = TextIOWrapper(BytesIO(), encoding="utf-8")
    try:
        with redirect_stdout(sink), redirect_stderr(sink):
            return export_obstacle(target.function, target.name, target.calls, owner=target.owner)
    except Exception:
        # A remark in passing must not keep anybody from searching; the export itself will say it.
        return ""
