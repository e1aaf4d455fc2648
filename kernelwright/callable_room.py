"""Packages that are functions, too: `kernelwright.search` is a room and what people call."""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module

from kernelwright.lazy_import import LazyPackage

_FACE = "kernelwright.service.python"


class CallableRoom(LazyPackage):
    """A package that can be called as the function of its name, which is imported at that time.

    Python binds a package's name in its parent when anything of the package is imported, so that
    a function of the same name would be there or not, by what was imported before.
    """

    @property
    def __wrapped__(self) -> Callable[..., object]:
        """The function, whose signature and documentation are shown."""
        name = self.__name__.rpartition(".")[2]
        function: Callable[..., object] = getattr(import_module(f"{_FACE}.{name}"), name)
        return function

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        return self.__wrapped__(*args, **kwargs)


def make_callable(room: str) -> None:
    """Let a package be called as the function that `service.python` has under its name."""
    module = sys.modules[room]
    if not isinstance(module, CallableRoom):
        # A package may have a class of its own already, such as one that imports lazily.
        module.__class__ = type("CallableRoom", (CallableRoom, type(module)), {})
