"""Says at each call whether definitions are what they were; the text is part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import functools
from collections.abc import Callable, Iterable

from kernelwright.runtime.definition import _are_alike
from kernelwright.runtime.reads import _Reads


class _Unchanged:
    """Says whether what a function reads is what it was when this was made."""

    def __init__(
        self, function: Callable, names: frozenset[str] | None, passed: Iterable[object]
    ) -> None:
        self._walk = lambda: _Reads(function, names, passed, fixes_variables=True)
        self._are_alike = lambda one, other: _are_still_alike(one, other, names)
        self._loaded = self._now = self._walk()
        self._is_same = not self._now.too_large

    def __call__(self) -> bool:
        if not self._now.hold():
            self._now = self._walk()
            is_same = self._now.tokens == self._loaded.tokens
            self._is_same = is_same and not self._now.too_large
        return self._is_same

    def knows(self, definitions: Iterable[object]) -> bool:
        """Say whether functions and classes are those that the walk met, or say the same."""
        return all(self._now.knows(definition, self._are_alike) for definition in definitions)


class _Likeness:
    """Says whether two definitions say the same, such as a class and a copy of it.

    They are compared again when anything that one of them reads is changed, such as a dict of
    its file. Of objects and classes only what is in `names` is read, or everything for None.
    """

    def __init__(self, one: object, other: object, names: frozenset[str] | None) -> None:
        self._pair, self._names = (one, other), names
        self._compare()

    def __call__(self) -> bool:
        if not self._is_watched or not all(reads.hold() for reads in self._reads):
            self._compare()
        return self._are_alike

    def _compare(self) -> None:
        self._are_alike = _are_alike(*self._pair)
        pair = self._pair if self._are_alike else ()
        self._reads = [_Reads(each, self._names, takes_all=self._names is None) for each in pair]
        self._is_watched = bool(pair) and not any(reads.too_large for reads in self._reads)


_likeness = functools.lru_cache(maxsize=256)(_Likeness)


def _are_still_alike(one: object, other: object, names: frozenset[str] | None = None) -> bool:
    """Say whether two definitions say the same now."""
    return one is other or _likeness(one, other, names)()
