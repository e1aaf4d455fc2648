"""Processes that share a benchmark's work, and the file of results that all of them write."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.evaluator.oracle.parallel import share_memory

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Open so many processes, each on cores of its own, so that its oracle spreads over no others.

    A fresh interpreter for each: a forked one would share threads that are gone.
    """
    context = get_context("spawn")
    place = context.Value("i", 0)
    with ProcessPoolExecutor(jobs, context, initializer=_settle, initargs=(place, jobs)) as pool:
        yield pool


def _settle(place: "Synchronized[int]", jobs: int) -> None:
    mx.set_default_device(mx.cpu)
    share_memory(jobs)
    with place.get_lock():
        number, place.value = place.value, place.value + 1
    if jobs > 1 and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        each = max(len(cores) // jobs, 1)
        first = number % jobs * each % len(cores)
        os.sched_setaffinity(0, cores[first : first + each])


def append_line(path: Path, line: str) -> None:
    """Add a line in one write, which processes that share a file do not tear apart."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


def whole_lines(path: Path | None) -> list[str]:
    """Return the JSON lines of a file, none where it is missing; one that broke off is left out."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    return [line for line in lines if line.endswith("}")]


def shard_of(text: str) -> tuple[int, int]:
    """Read `2/6` as the second of six parts.

    Raises:
        InputError: it is none.
    """
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second)):
        raise InputError(f"expected a shard such as 2/6, found {text!r}.")
    return int(first), int(second)
