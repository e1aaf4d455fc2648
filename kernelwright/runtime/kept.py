"""What a function may change while it runs, as it was before, and ways to put it back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType
from typing import Protocol

_MISSING = object()


class Kept(Protocol):
    """Something that holds values, as it was."""

    @property
    def is_as_it_was(self) -> bool:
        """Say whether it still holds the very same values."""

    def restore(self) -> None:
        """Put the values back."""


@dataclass(frozen=True, eq=False)
class KeptItems:
    """A list or dict as it was."""

    holder: list[object] | dict[object, object]
    copy: list[object] | dict[object, object]
    filled: Sequence[str] = ()
    """Keys that a first reading fills, as it does of a cached property; that changes no call."""

    @property
    def is_as_it_was(self) -> bool:
        """Say whether it holds the very same values in the same places."""
        new = sum(name in self.holder and name not in self.copy for name in self.filled)
        if len(self.holder) - new != len(self.copy):
            return False
        if isinstance(self.holder, list):
            return all(now is then for now, then in zip(self.holder, self.copy, strict=True))
        assert isinstance(self.copy, dict)
        return all(self.holder.get(key, self) is then for key, then in self.copy.items())

    def restore(self) -> None:
        """Put the values back into their places."""
        if isinstance(self.holder, list):
            self.holder[:] = self.copy
        elif isinstance(self.copy, dict):
            # A module is a dict whose own methods do more than a dict's.
            dict.clear(self.holder)
            dict.update(self.holder, self.copy)


@dataclass(frozen=True, eq=False)
class KeptNames:
    """Variables of a module, an enclosing function or a class, as they were."""

    values: Callable[[], Mapping[str, object]]
    assign: Callable[[str, object], None]
    delete: Callable[[str], None]
    copy: Mapping[str, object]

    @property
    def is_as_it_was(self) -> bool:
        """Say whether each variable still has the very same value."""
        now = self.values()
        return all(now.get(name, _MISSING) is then for name, then in self.copy.items())

    def restore(self) -> None:
        """Bind the variables again."""
        now = self.values()
        for name, then in self.copy.items():
            if now.get(name, _MISSING) is then:
                continue
            if then is _MISSING:
                self.delete(name)
            else:
                self.assign(name, then)


def names_in(space: dict[str, object], names: Iterable[str]) -> KeptNames:
    """Note the variables of a namespace, those that are not bound yet among them."""
    copy = {name: space.get(name, _MISSING) for name in names}
    return KeptNames(lambda: space, space.__setitem__, space.__delitem__, copy)


def names_of_class(kind: type) -> KeptNames:
    """Note the attributes of a class itself, such as a counter of its objects."""
    copy = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    return KeptNames(lambda: vars(kind), partial(setattr, kind), partial(delattr, kind), copy)


def name_of_cell(cell: CellType) -> KeptNames:
    """Note a variable of an enclosing function."""

    def values() -> Mapping[str, object]:
        try:
            return {"": cell.cell_contents}
        except ValueError:
            return {}

    def assign(_: str, value: object) -> None:
        cell.cell_contents = value

    def delete(_: str) -> None:
        del cell.cell_contents

    return KeptNames(values, assign, delete, {"": values().get("", _MISSING)})
