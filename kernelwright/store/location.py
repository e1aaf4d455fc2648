"""Where a store is: a path, any SQLAlchemy URL, or the user's own data directory."""

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import platformdirs

from kernelwright.errors import StoreError
from kernelwright.settings_file import given_settings

_PASSWORD = re.compile(r":[^:]+@")
_PLACES = ("host", "hostaddr", "port", "dbname")
"""The parameters of a URL that say where a store is, and hold no secret."""
VARIABLE = "KERNELWRIGHT_STORE"
_FILE_SCHEMES = ("sqlite", "sqlite+pysqlite")


def default_url() -> str:
    """Return what `KERNELWRIGHT_STORE` or the project's settings name, else the user's own file."""
    if named := os.environ.get(VARIABLE):
        return url_of(named)
    if (settings := given_settings(("store",))) is not None and settings.store:
        return url_of(settings.store)
    return url_of(str(platformdirs.user_data_path("kernelwright") / "kernels.db"))


def url_of(place: str) -> str:
    """Read a path or a URL as a URL.

    Raises:
        StoreError: the path is a folder.
    """
    if "://" in place:
        return place
    path = Path(place).expanduser().absolute()
    if path.is_dir():
        raise StoreError(f"expected a file for the store, found the folder {path}; name a file.")
    # In a URL a % begins a character's number, and a ? the parameters.
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


def path_of(url: str) -> Path | None:
    """Return the path that a `sqlite:///` URL names; None for other URLs."""
    scheme, _, rest = url.partition(":///")
    path = unquote(rest.partition("?")[0])
    return Path(path) if path and scheme in _FILE_SCHEMES else None


def has_store(place: str | None) -> bool:
    """Say whether a store is there: a file, or any database of a server, which is not asked."""
    url = default_url() if place is None else url_of(place)
    path = path_of(url)
    return path is None or path.is_file()


def is_same_place(url: str, other: str) -> bool:
    """Say whether two URLs name one store; of files, whatever leads to them."""
    path, other_path = path_of(url), path_of(other)
    if path is None or other_path is None:
        return url == other
    return path.resolve() == other_path.resolve()


def label_of(url: str) -> str:
    """Name a store for people: a path relative to home, or a URL without its password."""
    if (path := path_of(url)) is None:
        scheme, _, rest = url.partition("://")
        # The user and the password end at the last @; parameters after ? may hold others. Where
        # one may end in the other, nothing is shown.
        place, _, parameters = rest.partition("?")
        if "@" in parameters:
            return f"{scheme}://…"
        shown = [f"{key}={value}" for key, value in parse_qsl(parameters) if key in _PLACES]
        return f"{scheme}://{place.rpartition('@')[2]}{'?' if shown else ''}{'&'.join(shown)}"
    home = Path.home()
    text = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    # A URL that was mistyped is a path, and still holds its password.
    return _PASSWORD.sub(":***@", text)


def without_secrets(text: str, url: str) -> str:
    """Return what a database or a driver said without the passwords of a URL."""
    for secret in sorted(secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def secrets_of(url: str) -> set[str]:
    """List the parts of a URL that nobody else may read, as they are written and as they mean."""
    if path_of(url) is not None:
        return set()
    rest = url.partition("://")[2]
    account, at, _ = rest.rpartition("@")
    found = {rest, account.partition(":")[2]} if at else {rest}
    parameters = rest.partition("?")[2]
    found |= {value for key, value in parse_qsl(parameters) if key not in _PLACES}
    pairs = (pair.partition("=") for pair in parameters.split("&"))
    found |= {value for key, _, value in pairs if key not in _PLACES}
    # What follows an @ in a parameter is taken for a host, and named as one.
    found |= {secret.rpartition("@")[2] for secret in found if "@" in secret and "?" in rest}
    found |= {unquote(secret) for secret in found}
    return {secret for secret in found if secret}


def libpq_url(place: str) -> str | None:
    """Return a PostgreSQL store's URL as its own client library reads it; None for others."""
    scheme, _, rest = url_of(place).partition("://")
    is_postgresql = scheme.partition("+")[0] in ("postgresql", "postgres")
    return f"postgresql://{rest}" if is_postgresql else None
