"""Where a store is: a path, any SQLAlchemy URL, or the user's own data directory."""

import os
from pathlib import Path

import platformdirs

VARIABLE = "KERNELWRIGHT_STORE"


def default_url() -> str:
    """Return what `KERNELWRIGHT_STORE` names, else `kernels.db` in the user's data directory."""
    if named := os.environ.get(VARIABLE):
        return url_of(named)
    return url_of(str(platformdirs.user_data_path("kernelwright") / "kernels.db"))


def url_of(place: str) -> str:
    """Read a path or a URL as a URL."""
    return place if "://" in place else f"sqlite:///{Path(place).expanduser().absolute()}"


def has_store(place: str | None) -> bool:
    """Say whether a store is there: a file, or any database of a server, which is not asked."""
    url = default_url() if place is None else url_of(place)
    if not url.startswith("sqlite:///"):
        return True
    return Path(url.removeprefix("sqlite:///")).is_file()


def label_of(url: str) -> str:
    """Name a store for people: a path relative to home, or a URL without its password."""
    if not url.startswith("sqlite:///"):
        head, _, tail = url.rpartition("@")
        return f"{head.partition('://')[0]}://{tail}" if head else url
    path = Path(url.removeprefix("sqlite:///"))
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
