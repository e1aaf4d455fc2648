"""Where the seconds of a search go: spans of work, which each of its processes writes down."""

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "KERNELWRIGHT_TIMELINE"
"""Names the file that spans are written to; unset where nobody asked for them."""
_SHOWN_S = 0.2
"""Shorter spans are in the sums only."""
_depth = threading.local()


@dataclass(frozen=True)
class Span:
    """One piece of work: seconds since the epoch, and who did it."""

    name: str
    began_s: float
    ended_s: float
    process: int
    thread: str
    depth: int
    """Spans of the same thread that it lies in."""

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return self.ended_s - self.began_s


@contextmanager
def span(name: str) -> Iterator[None]:
    """Write down how long the body takes, where somebody asked for it."""
    path = os.environ.get(VARIABLE)
    if not path:
        yield
        return
    depth = getattr(_depth, "value", 0)
    _depth.value = depth + 1
    began_s = time.time()
    try:
        yield
    finally:
        _depth.value = depth
        _write(path, name, began_s, time.time(), depth)


def mark_start() -> None:
    """Write down what this process has done since it began, such as imports; on Linux alone."""
    path = os.environ.get(VARIABLE)
    if path and (began_s := _process_began_s()):
        _write(path, "start and imports", began_s, time.time(), 0)


def _write(path: str, name: str, began_s: float, ended_s: float, depth: int) -> None:
    thread = threading.current_thread().name
    line = json.dumps([name, began_s, ended_s, os.getpid(), thread, depth]) + "\n"
    # Short lines that are appended in one call do not mix.
    with suppress(OSError), Path(path).open("a") as file:
        file.write(line)


def _process_began_s() -> float | None:
    """Return when this process began: `starttime`, field 22 of proc(5)'s `stat`."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s)
    except (OSError, ValueError, AttributeError):
        return None


def read_spans(path: Path) -> list[Span]:
    """Read what was written down, in the order of beginning."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return sorted((Span(*json.loads(line)) for line in lines), key=lambda s: (s.began_s, s.depth))


def timeline_text(spans: Sequence[Span]) -> str:
    """Show spans in the order of beginning, in seconds since the first, and sums by name."""
    if not spans:
        return "nothing was written down"
    zero_s = spans[0].began_s
    workers: dict[tuple[int, str], int] = {}
    lines = [" began   ended  seconds  where  what"]
    for one in spans:
        where = workers.setdefault((one.process, one.thread), len(workers) + 1)
        if one.duration_s >= _SHOWN_S:
            lines.append(
                f"{one.began_s - zero_s:6.1f}  {one.ended_s - zero_s:6.1f}  {one.duration_s:7.1f}"
                f"  {where:5d}  {'  ' * one.depth}{one.name}"
            )
    return "\n".join([*lines, "", *_sums(spans)])


def _sums(spans: Sequence[Span]) -> Iterator[str]:
    """Yield the sum and the number of each name's spans, the largest sum first."""
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for one in spans:
        by_name[one.name].append(one.duration_s)
    yield "seconds  times  what"
    for name, durations in sorted(by_name.items(), key=lambda item: -sum(item[1])):
        yield f"{sum(durations):7.1f}  {len(durations):5d}  {name}"
