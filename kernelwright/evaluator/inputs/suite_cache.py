"""Where the evaluators of one search keep their cases, so that each set is built once."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar, cast

from kernelwright.evaluator.oracle.parallel import memory_bytes

_KEPT_SUITES = 32
_FEWEST_KEPT = 4
"""What a task at hand is judged and timed on stays, however large: visible, hidden and confirming
cases, and inputs to time on."""
_KEPT_SHARE = 1 / 4
"""Of the machine's memory."""


class Kept(Protocol):
    """Cases of any kind."""

    @property
    def nbytes(self) -> int:
        """Bytes that they hold."""


AnyKept = TypeVar("AnyKept", bound=Kept)


class SuiteCache:
    """Suites by what they were drawn from; threads that want the same one wait for the first."""

    def __init__(self) -> None:
        self._suites: OrderedDict[tuple[str, ...], Kept] = OrderedDict()
        self._lock = Lock()
        self._building: defaultdict[tuple[str, ...], Lock] = defaultdict(Lock)

    def get_or_build(self, key: tuple[str, ...], build: Callable[[], AnyKept]) -> AnyKept:
        """Return the suite of a key, built at its first use.

        `key` holds all that decides what is in the suite, its kind and the secret that draws it
        included.
        """
        with self._lock:
            building = self._building[key]
        with building:
            suite = cast("AnyKept", self._suites.get(key)) or build()
            with self._lock:
                self._suites[key] = suite
                self._suites.move_to_end(key)
                self._trim()
        return suite

    def keeps(self, size: int) -> bool:
        """Say whether suites of so many bytes together stay, be there few of them or many."""
        return size <= _KEPT_SHARE * memory_bytes()

    def _trim(self) -> None:
        """Forget the suites that were used longest ago, beyond a number and a size."""
        while len(self._suites) > _KEPT_SUITES or (
            len(self._suites) > _FEWEST_KEPT
            and not self.keeps(sum(s.nbytes for s in self._suites.values()))
        ):
            key, _ = self._suites.popitem(last=False)
            self._building.pop(key, None)
