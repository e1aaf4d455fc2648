"""What a class does when an attribute of it is looked up; nothing is looked up for that."""

from kernelwright.runtime.models.purity.library import is_library
from kernelwright.runtime.models.purity.value import class_of, entry

_LOOKUPS = ("__getattribute__", "__getattr__")


def effect_of_class(kind: type) -> str:
    """Say what any look-up of an attribute of a class, or of an object of it, may do."""
    for each in (*kind.__mro__, *type.mro(type(kind))):
        if is_library(each.__module__):
            continue
        fields = vars(each)
        for name in _LOOKUPS:
            if name in fields:
                return f"looks attributes up by {name} of {each.__name__}"
        for name, value in list(fields.items()):
            if is_own_descriptor(value):
                return f"computes its attribute {name} by a descriptor ({type(value).__name__})"
    return ""


def effect_of_descriptor(value: object, name: str) -> str:
    """Say what looking up a name of a value of the program's own does, apart from properties."""
    kind = value if isinstance(value, type) else class_of(value)
    if is_library(kind.__module__):
        return ""
    said = entry(kind.__mro__, name)
    if not is_own_descriptor(said):
        return ""
    return f"computes the attribute {name} by a descriptor ({type(said).__name__})"


def is_own_descriptor(value: object) -> bool:
    """Say whether code of the program's own runs where a class's entry is looked up."""
    return any(
        not is_library(kind.__module__) and ("__get__" in vars(kind) or "__set__" in vars(kind))
        for kind in type(value).__mro__
    )
