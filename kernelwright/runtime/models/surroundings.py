"""What a module's code reads besides its parameters, and whether that is still what it was."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mlx.nn.layers.base import Module

from kernelwright.runtime.guard import compiled
from kernelwright.runtime.models.class_comparison import compares_classes
from kernelwright.runtime.models.tree import all_modules
from kernelwright.runtime.reads import _Reads


@dataclass(frozen=True)
class Surroundings:
    """The lists, dicts and objects in a model, and what its code names, as they were.

    A module's own attributes are not among them: its class notices when one is set.
    """

    holds: Callable[[], bool]
    obstacle: str = ""
    """What would be a constant of kernels and may change, or cannot be compared at each call."""
    comparison: str = ""
    """The function that compares classes of modules by `is`; empty where none does."""

    @classmethod
    def of(cls, method: Callable[..., object], module: Module) -> "Surroundings":
        """Walk from a method of a module, and from the module."""
        try:
            reads = _Reads(method, kept=(module,), noticed=_noticed(module))
        except RecursionError:
            return cls(_never, "values that are nested too deeply")
        except Exception as e:
            # An attribute that is computed, of an object of any library, may raise anything.
            return cls(_never, f"a value that cannot be asked: {type(e).__name__}: {e}")
        unseen = (*reads.too_large, *_constants(reads, module))
        comparing = (f.__qualname__ for f in reads.functions if compares_classes(f))
        return cls(compiled(reads.watches), unseen[0] if unseen else "", next(comparing, ""))


def _never() -> bool:
    return False


def _noticed(module: Module) -> Iterator[object]:
    for _, found in all_modules(module):
        yield found
        yield vars(found)
        # Which parameters are trained; no call reads it.
        yield vars(found).get("_no_grad")


def _constants(reads: _Reads, module: Module) -> Iterator[str]:
    """Name arrays that a call reads and that are no parameters, and modules that hold such."""
    inside = set(map(id, _containers(module)))
    for name, _ in reads.fixed_arrays:
        yield f"{name}, an array that is no parameter of the module"
    for holder, key in reads.places:
        if id(holder) not in inside:
            yield f"{key}, an array that is no parameter of the module"
    for holder, value in reads.objects:
        if isinstance(value, Module) and id(holder) not in inside:
            yield f"{type(value).__name__}, a module that is no part of it"


def _containers(module: Module) -> Iterator[object]:
    """Yield what holds the parameters of a module and of those below it."""
    waiting: list[object] = [found for _, found in all_modules(module)]
    while waiting:
        found = waiting.pop()
        yield found
        items = dict.values(found) if isinstance(found, dict) else found
        assert isinstance(items, Iterable)
        waiting += [
            item
            for item in items
            if isinstance(item, dict | list | tuple) and not isinstance(item, Module)
        ]
