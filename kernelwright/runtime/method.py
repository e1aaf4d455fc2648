"""The optimized methods of an object, each with its own kernels and counts."""

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING

from kernelwright.annotation import original_of

if TYPE_CHECKING:
    from kernelwright.runtime.optimize import Optimized

ATTRIBUTE = "__kernelwright_methods__"


class _Methods:
    """Kept by the object itself, so that both go at once; a copy of the object starts anew."""

    def __init__(self) -> None:
        self.made: dict[int, Optimized] = {}

    def __deepcopy__(self, memo: object) -> "_Methods":
        return _Methods()

    def __reduce__(self) -> tuple[type["_Methods"], tuple[()]]:
        return _Methods, ()


def method_of(owner: object, method: "Optimized", make: Callable[[], "Optimized"]) -> "Optimized":
    """Return the optimized method of an object; the same each time, where the object can keep it.

    Args:
        owner: the object.
        method: what stands in its class.
        make: makes the method of this object.
    """
    fields = getattr(owner, "__dict__", None)
    if not isinstance(fields, dict):
        return make()
    kept = fields.get(ATTRIBUTE)
    if not isinstance(kept, _Methods):
        # Not by assignment: a class may watch its attributes, as mlx.nn.Module does.
        kept = fields[ATTRIBUTE] = _Methods()
    found = kept.made.get(id(method))
    # A copied object shares what it keeps with the one that it was copied from.
    if found is None or not _belongs(found, owner):
        found = kept.made[id(method)] = make()
    return found


def _belongs(method: "Optimized", owner: object) -> bool:
    function = original_of(method)
    return isinstance(function, MethodType) and function.__self__ is owner
