"""What a function reads besides its arguments, and whether that is still what it was.

`kernelwright.optimize` and exports ask the same question here: the text of this file is part of
every export, and so are those that it imports; besides them it imports MLX alone.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import types
from collections.abc import Callable, Iterable

from kernelwright.runtime.code_names import (
    _is_the_users,
)
from kernelwright.runtime.read_walk import _Walk
from kernelwright.runtime.watched_place import _holds


class _Reads:
    """The definitions and values that a function's code can reach, as they are now.

    Code reads names; what they mean is walked: functions with their defaults and variables,
    classes with all that they inherit, objects, lists and dicts. Of objects, classes and modules
    only what is in `names` counts: every name in any code that was reached, where none are given.
    """

    def __init__(
        self,
        function: Callable,
        names: frozenset[str] | None = None,
        passed: Iterable[object] = (),
        fixes_variables: bool = False,
        kept: Iterable[object] = (),
        noticed: Iterable[object] = (),
        takes_all: bool = False,
    ) -> None:
        """Walk from a function.

        Args:
            function: takes the calls.
            names: what counts of objects.
            passed: objects that may be others at each call; their classes stay.
            fixes_variables: an array in a variable of an enclosing function is a constant.
            kept: objects that are the same at each call, besides what the function names.
            noticed: holders that need no watching, as they tell of each change themselves.
            takes_all: all that objects and classes hold counts, whatever names it.
        """
        passed, kept, noticed = tuple(passed), tuple(kept), frozenset(map(id, noticed))
        is_given = names is not None
        found = _Walk(names or frozenset(), is_given, takes_all, fixes_variables, noticed)
        found.over(function, passed, kept)
        while names is None and (found.named > found.names or found.needs_all > found.takes_all):
            found = _Walk(found.named, False, found.needs_all, fixes_variables, noticed)
            found.over(function, passed, kept)
        self.watches, self.tokens, self.places = found.watches, tuple(found.tokens), found.places
        self.holders = tuple(id(holder) for holder, _ in found.places)
        self.fixed_arrays, self.too_large = found.fixed_arrays, found.too_large
        # What holds an object, and the object.
        self.objects = found.objects
        self._codes, self._kinds, self._kept = found.codes, found.kinds, found.seen

    def hold(self) -> bool:
        """Say whether everything is the very same; False may mean that equals were put there."""
        return all(_holds(*watch) for watch in self.watches)

    def knows(self, definition: object, are_alike: Callable[[object, object], bool]) -> bool:
        """Say whether a function or class is one that the walk met, or says the same."""
        if isinstance(definition, type):
            definition = _class_of(definition)
            if id(definition) in self._kinds or not _is_the_users(definition):
                return True
            known = self._kinds.values()
        else:
            code = getattr(definition, "__code__", None)
            is_the_users = isinstance(code, types.CodeType) and _is_the_users(definition)
            if not is_the_users or id(code) in self._codes:
                return True
            known = self.functions
        name = definition.__qualname__
        return any(each.__qualname__ == name and are_alike(definition, each) for each in known)

    @property
    def functions(self) -> list[types.FunctionType]:
        """Functions whose code was walked."""
        return [v for v in self._kept.values() if type(v) is types.FunctionType]


def _class_of(kind: type) -> type:
    """Return the class of a library that kernels stand before; any other as it is."""
    base = kind.__mro__[min(1, len(kind.__mro__) - 1)]
    is_ours = any("serves" in getattr(v, "__dict__", ()) for v in tuple(vars(kind).values()))
    return base if is_ours and base.__name__ == kind.__name__ else kind
