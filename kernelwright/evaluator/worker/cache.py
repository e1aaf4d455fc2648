"""The simulator's cache as a worker sees it: shared headers to read, all else its own."""

import os
import shutil
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

VARIABLE = "KERNELWRIGHT_CACHE"
_SHARED = ("headers", "includes")
_PRIVATE = ("libraries", "work")
"""What is made of candidates: one that has taken its worker over cannot touch another's code."""


def shared_cache() -> Path:
    """Return the cache of this machine's user."""
    chosen = os.environ.get(VARIABLE)
    return (Path(chosen) if chosen else user_cache_path("kernelwright")).absolute()


def private_mounts(own: Path) -> list[tuple[str, str]]:
    """Return what to mount where, in order, so that a worker finds `own` in the cache's place.

    `own` may be there already, and other workers may have it mounted.
    """
    shared = shared_cache() / "simulator"
    for name in (*_SHARED, *_PRIVATE):
        (own / name).mkdir(parents=True, exist_ok=True)
        (shared / name).mkdir(parents=True, exist_ok=True)
    for file in shared.glob("runtime-*"):
        if not (own / file.name).exists():
            _copy_in_one_step(file, own)
    kept = [(str(shared / name), str(own / name)) for name in _SHARED]
    return [*kept, (str(own), str(shared))]


def _copy_in_one_step(file: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        Path(shutil.copy2(file, name)).replace(folder / file.name)


def writable_folders(own: Path) -> list[str]:
    """Return the folders of a private cache that its worker may write to."""
    return [str(own / name) for name in _PRIVATE]
