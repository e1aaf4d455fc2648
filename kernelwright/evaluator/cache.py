"""The simulator's cache as a worker sees it: shared headers to read, all else its own."""

import os
from pathlib import Path

from platformdirs import user_cache_path

_SHARED = ("runtime-*", "simulator/headers/*", "simulator/includes/*")
"""What every worker needs and none may change: the runtime and the precompiled headers."""
VARIABLE = "KERNELWRIGHT_CACHE"


def shared_cache() -> Path:
    """Return the cache of this machine's user."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else user_cache_path("kernelwright")


def mirror(shared: Path, private: Path) -> None:
    """Fill a private cache with links to the shared one's headers and runtime.

    Compiled candidates stay private: one that has taken its worker over cannot replace the
    code of another.
    """
    for pattern in _SHARED:
        (private / pattern).parent.mkdir(parents=True, exist_ok=True)
        for file in shared.glob(pattern):
            (private / file.relative_to(shared)).symlink_to(file)


def was_cold(private: Path) -> bool:
    """Say whether a worker had to build what the shared cache should have held."""
    return any(
        file.is_file() and not file.is_symlink()
        for pattern in _SHARED
        for file in private.glob(pattern)
    )
