"""Examines the text of a module's code: what it does besides computing, at which line."""

from collections.abc import Iterable

from mlx.nn.layers.base import Module

from kernelwright.runtime.effect import Effect
from kernelwright.runtime.models.purity.call import FoundError
from kernelwright.runtime.models.purity.class_text import effect_of_class
from kernelwright.runtime.models.purity.library import is_library
from kernelwright.runtime.models.purity.text import Text
from kernelwright.runtime.models.purity.value import (
    attribute,
    elements,
)
from kernelwright.runtime.models.tree import own_class


def effect_of_module(module: Module, methods: Iterable[str]) -> Effect | None:
    """Find what a module's own code, and all that it calls but for modules, does besides computing.

    Modules inside are not looked into; each is a part of its own.
    """
    try:
        if said := effect_of_class(own_class(module)):
            return Effect(said, "")
        walk = _Examination(module)
        for method in methods:
            walk.over(method)
    except FoundError as e:
        return e.effect
    except RecursionError:
        return Effect("is nested too deeply to be examined", "")
    except Exception as e:
        # An object of any library may raise anything when it is asked what it is.
        return Effect(f"names what cannot be examined ({type(e).__name__}: {e})", "")
    return None


class _Examination(Text):
    def over(self, method: str) -> None:
        """Examine a method of the module."""
        kind = own_class(self.module)
        if is_library(kind.__module__):
            # MLX's own layers call what they were given, such as an activation.
            for value in [*vars(self.module).values(), *self.module.values()]:
                for held in (value, *elements(value)):
                    if callable(held) and not isinstance(held, Module):
                        self.called(held, (), {}, None)
            return
        for found in attribute(self.module, method):
            self.called(found, (), {}, None)
