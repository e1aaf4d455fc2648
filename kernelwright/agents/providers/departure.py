"""Whether a request has left this machine, which what went wrong with it cannot tell."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

_LEFT = ".send_request_headers.complete"
"""How the HTTP client's trace names it, behind the protocol's version:
https://www.encode.io/httpcore/extensions/#trace."""


@dataclass
class Departure:
    """Whether any byte of one request has left."""

    has_left: bool = False

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Take in what the HTTP client tells of its progress."""
        self.has_left |= event.endswith(_LEFT)


_CURRENT: ContextVar[Departure | None] = ContextVar("departure", default=None)


def begin_departure() -> Departure:
    """Watch what this task, and those that it starts, send from now on."""
    departure = Departure()
    _CURRENT.set(departure)
    return departure


def current_departure() -> Departure:
    """Return what is watched in this task."""
    return _CURRENT.get() or begin_departure()
