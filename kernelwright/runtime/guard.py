"""Decides in a microsecond whether what a function reads is still what it was."""

from collections.abc import Callable, Iterable, Sequence

import mlx.core as mx

from kernelwright.runtime.reads import _Reads
from kernelwright.runtime.watched_place import _holds, _is_alike

_QUICK = {
    "item": "{h}[{k}] is {e}",
    "item value": "({h}[{k}] is {e} or is_alike({h}[{k}], {e}))",
    "item type": "type({h}[{k}]) is {e}",
    "attr": "{h}.{name} is {e}",
    "attr value": "({h}.{name} is {e} or is_alike({h}.{name}, {e}))",
    "attr type": "type({h}.{name}) is {e}",
    "missing": "{k} not in {h}",
    "keys": "tuple({h}) == {e}",
    "len": "len({h}) == {n}",
}
_OTHER = "holds({what!r}, {h}, {k}, {e})"
_FAILURES = (KeyError, IndexError, AttributeError, ValueError, TypeError)

Watch = tuple[str, object, object, object]


class State:
    """What a function reads, as it was when kernels were looked up for it."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Walk from a function as it is now."""
        self._reads: _Reads | None = None
        self.obstacle = ""
        """Why it cannot be compared at each call; empty where it can."""
        self.identity: tuple[object, ...] = ()
        """Equal for states in which the function computes the same."""
        self.holds: Callable[[], bool] = _always
        try:
            self._reads = reads = _Reads(function)
        except RecursionError:
            self.obstacle = "values that are nested too deeply"
            return
        except Exception as e:
            # An attribute that is computed, of an object of any library, may raise anything.
            self.obstacle = f"a value that cannot be asked: {type(e).__name__}: {e}"
            return
        self.obstacle = reads.too_large[0] if reads.too_large else ""
        self.identity = (reads.tokens, reads.holders)
        self.holds = compiled(reads.watches)

    def arrays_besides(self, slots: Iterable[object]) -> list[tuple[str, mx.array]]:
        """Return the arrays that it reads, each with its name, but for those in slots."""
        if self._reads is None:
            return []
        passed = set(map(_place, slots))
        held = [
            (str(key), array)
            for holder, key in self._reads.places
            if (id(holder), key) not in passed and isinstance(array := _held(holder, key), mx.array)
        ]
        return [*self._reads.fixed_arrays, *held]


def _always() -> bool:
    return True


def _place(slot: object) -> tuple[int, object]:
    cell = getattr(slot, "cell", None)
    if cell is not None:
        return id(cell), "cell_contents"
    return id(getattr(slot, "holder", None)), getattr(slot, "key", None)


def _held(holder: object, key: object) -> object:
    if isinstance(key, str) and not isinstance(holder, dict):
        return getattr(holder, key, None)
    return dict.get(holder, key) if isinstance(holder, dict) else holder[key]  # type: ignore[index]


def compiled(watches: Sequence[Watch]) -> Callable[[], bool]:
    """Return the question whether every place holds what it did, as one expression of Python's."""
    terms: list[str] = []
    space: dict[str, object] = {"holds": _holds, "is_alike": _is_alike}
    names: dict[int, str] = {}

    def name_of(value: object) -> str:
        if id(value) not in names:
            names[id(value)] = name = f"v{len(names)}"
            space[name] = value
        return names[id(value)]

    for what, holder, key, expected in watches:
        quick = _QUICK.get(what, _OTHER) if _is_quick(what, holder, key, expected) else _OTHER
        terms.append(
            quick.format(
                what=what,
                h=name_of(holder),
                k=name_of(key),
                e=name_of(expected),
                name=key,
                n=expected,
            )
        )
    code = compile(f"lambda: {' and '.join(dict.fromkeys(terms)) or 'True'}", "<guard>", "eval")
    check: Callable[[], bool] = eval(code, space)

    def holds() -> bool:
        try:
            return check()
        except _FAILURES:
            return False

    return holds


def _is_quick(what: str, holder: object, key: object, expected: object) -> bool:
    if what in ("item", "item value", "item type", "keys"):
        is_plain = isinstance(holder, dict | list) and (
            type(holder).__getitem__ in (dict.__getitem__, list.__getitem__)
            and type(holder).__iter__ in (dict.__iter__, list.__iter__)
        )
        return is_plain or type(holder).__name__ == "mappingproxy"
    if what.startswith("attr"):
        return isinstance(key, str) and key.isidentifier()
    return what in _QUICK
