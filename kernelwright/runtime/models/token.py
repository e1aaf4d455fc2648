"""What stands for state while a module is traced: it may be handed on, and not looked at."""

from typing import NoReturn, Protocol

from kernelwright.errors import UnsupportedError


class Watcher(Protocol):
    """Hears what a traced module does with state."""

    def item(self, token: "Token", key: object) -> object:
        """Return what the state keeps under a number, or refuse.

        Raises:
            UnsupportedError: what it keeps is not known.
        """

    def set_item(self, token: "Token", key: object, value: object) -> None:
        """Let the state keep an array under a number, or refuse.

        Raises:
            UnsupportedError: what it does with it is not known.
        """

    def attribute(self, token: "Token", name: str) -> object:
        """Return an attribute of the state, or refuse.

        Raises:
            UnsupportedError: what it is decides what is computed.
        """


class Token:
    """A cache, a number that changes from call to call, or anything else that is no array."""

    __slots__ = ("kind", "place", "watcher")

    def __init__(self, watcher: Watcher, place: int, kind: type) -> None:
        object.__setattr__(self, "watcher", watcher)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "kind", kind)

    def __getattribute__(self, name: str) -> object:
        watcher: Watcher = object.__getattribute__(self, "watcher")
        return watcher.attribute(self, name)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        refuse(f"sets {name} of")

    def __bool__(self) -> bool:
        kind = object.__getattribute__(self, "kind")
        # What has neither method is true in Python.
        if hasattr(kind, "__bool__") or hasattr(kind, "__len__"):
            refuse("asks for the truth of")
        return True

    def __eq__(self, other: object) -> bool:
        refuse("compares")

    def __hash__(self) -> int:
        refuse("hashes")

    def __len__(self) -> int:
        refuse("counts")

    def __repr__(self) -> str:
        refuse("prints")

    def __getitem__(self, key: object) -> object:
        watcher: Watcher = object.__getattribute__(self, "watcher")
        return watcher.item(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        watcher: Watcher = object.__getattribute__(self, "watcher")
        watcher.set_item(self, key, value)

    def __contains__(self, item: object) -> bool:
        refuse("searches")


def place_of(token: Token) -> int:
    """Return the token's place in the call's environment."""
    place: int = object.__getattribute__(token, "place")
    return place


def kind_of(token: Token) -> type:
    """Return the type of what the token stands for."""
    kind: type = object.__getattribute__(token, "kind")
    return kind


def refuse(does: str) -> NoReturn:
    """Say what a module does with state that nobody can foresee."""
    raise UnsupportedError(f"the module {does} state, such as a cache or an offset, itself.")
