"""What the stages of one verdict found, for those after them."""

from collections.abc import Iterable
from threading import Condition
from typing import Literal

Lane = Literal["device", "simulator", "fresh process"]
"""Where stages run that do not wait for each other."""


class Superseded(Exception):  # noqa: N818 (no error: what it ends would not be told)
    """An earlier stage refused the program, so that what a later one finds does not matter."""


class Facts:
    """Values by name; whoever reads one that a stage beside it is still to give waits for it."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}
        self._coming = frozenset[str]()
        self._changed = Condition()

    def expect(self, names: Iterable[str]) -> None:
        """Let readers of these wait until they are given."""
        with self._changed:
            self._coming |= frozenset(names)

    def give(self, name: str, value: object) -> None:
        """Say what a fact is."""
        with self._changed:
            self._known[name] = value
            self._changed.notify_all()

    def withdraw(self, names: Iterable[str]) -> None:
        """Let nobody wait for these any more: whoever does is `Superseded`."""
        with self._changed:
            for name in names:
                self._known.setdefault(name, _NEVER)
            self._changed.notify_all()

    def knows(self, name: str) -> bool:
        """Say whether a fact is there by now."""
        with self._changed:
            return self._known.get(name, _NEVER) is not _NEVER

    def read(self, name: str) -> object:
        """Return a fact.

        Raises:
            Superseded: the stage that would give it comes to no end.
            RuntimeError: no stage gives it.
        """
        with self._changed:
            self._changed.wait_for(lambda: name in self._known or name not in self._coming)
            if name not in self._known:
                raise RuntimeError(f"expected an earlier stage to give {name!r}, found none.")
            value = self._known[name]
        if value is _NEVER:
            raise Superseded(name)
        return value


_NEVER = object()
