"""One thread for each matrix product while the products themselves go side by side."""

import ctypes
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

_PRODUCTS = "numpy._core._multiarray_umath"
"""NumPy's own library, which is linked with the one that multiplies."""
_NAMES = tuple(
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
)
"""What NumPy's wheels call OpenBLAS' functions, and what distributions do."""


class _Blas(NamedTuple):
    threads: Callable[[], int]
    set_threads: Callable[[int], None]


class _Users:
    """Counts who works side by side: the first takes the threads away, the last gives them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = self._before = 0

    def enter(self, blas: _Blas) -> None:
        with self._lock:
            if not self._count:
                self._before = blas.threads()
                blas.set_threads(1)
            self._count += 1

    def leave(self, blas: _Blas) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                blas.set_threads(self._before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep NumPy's OpenBLAS to one thread for each product; no effect on another library.

    Its threads wait for each other by spinning: small products of several callers at once take
    many times the processor time of what they compute.
    """
    blas, users = _openblas(), _users()
    if blas is None:
        yield
        return
    users.enter(blas)
    try:
        yield
    finally:
        users.leave(blas)


@cache
def _openblas() -> _Blas | None:
    """Find the library that NumPy multiplies with, None where it is not OpenBLAS."""
    library = ctypes.CDLL(importlib.import_module(_PRODUCTS).__file__)
    for get, set_ in _NAMES:
        try:
            return _Blas(getattr(library, get), getattr(library, set_))
        except AttributeError:
            continue
    return None


@cache
def _users() -> _Users:
    return _Users()


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_users.cache_clear)
