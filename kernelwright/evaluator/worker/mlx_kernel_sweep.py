"""Forgets kernels of MLX's that nobody has been lent for long, and the oldest beyond a size."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DAY_S = 86400.0
_LONGEST_UNUSED_S = 30 * _DAY_S
_IN_USE_S = _DAY_S
"""A worker may still be reading what it was lent since then."""
_MOST_BYTES = 1 << 29
"""Of all versions of MLX and all chips: some thousand graphs."""


@dataclass(frozen=True)
class _Listing:
    """The kernels of one graph, and how long ago a worker was last lent them."""

    path: Path
    unused_s: float
    kernels: tuple[Path, ...]


def sweep_kernels(folder: Path, *, most_bytes: int = _MOST_BYTES) -> None:
    """Delete from the folders of all versions and chips what no graph in use needs.

    Raises:
        OSError: the cache cannot be read or written.
    """
    kept = set[Path]()
    used = 0
    for listing in sorted(_listings(folder), key=lambda one: one.unused_s):
        new = {path: path.stat().st_size for path in listing.kernels if path not in kept}
        is_kept = listing.unused_s < _LONGEST_UNUSED_S and used + sum(new.values()) <= most_bytes
        if is_kept or listing.unused_s < _IN_USE_S:
            kept |= new.keys()
            used += sum(new.values())
        else:
            listing.path.unlink(missing_ok=True)
    # What is new may be on its way into a listing.
    for path in folder.glob("*/kernels/**/*"):
        if path.is_file() and path not in kept and _age_s(path) > _IN_USE_S:
            path.unlink(missing_ok=True)
    for lock in folder.glob("*/*.lock"):
        if not lock.with_suffix(".json").exists() and _age_s(lock) > _IN_USE_S:
            lock.unlink(missing_ok=True)


def _listings(folder: Path) -> Iterator[_Listing]:
    for path in folder.glob("*/*.json"):
        # Another process may sweep, too.
        with suppress(FileNotFoundError):
            kernels = (path.parent / "kernels" / name for name in json.loads(path.read_text()))
            there = tuple(kernel for kernel in kernels if kernel.is_file())
            yield _Listing(path, _age_s(path), there)


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime
