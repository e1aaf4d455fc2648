"""The lines of a module that a function is carried into, and what its names mean."""

from dataclasses import dataclass, field

import mlx.core as mx


@dataclass
class CarriedSource:
    """The lines of a module in which the function works as it does where it was written."""

    name: str
    """Of the function, or of the object that is called."""
    attributes: tuple[str, ...]
    """The method, where the function is one of an object: `("forward",)`."""
    public: str = ""
    """A name of the method itself, where the user calls it by one: `step = model.step`."""
    imports: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    """Definitions in an order in which they can be run."""
    arrays: dict[str, mx.array] = field(default_factory=dict)
    """Arrays that the function names, which become data."""
    objects: dict[str, object] = field(default_factory=dict)
    """Objects that were made by a statement, and may hold arrays."""
    literals: dict[str, object] = field(default_factory=dict)
    """Numbers, texts and the like that the function names; users may set others."""
    needs_numpy: bool = False
    stated: set[str] = field(default_factory=set)
    """Objects that are written out in their state, with their arrays in `data`."""
    data: dict[str, mx.array] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    """Everything that the module's names mean."""

    @property
    def captured(self) -> tuple[str, ...]:
        """Names of what the function reads besides its arguments, and may hold arrays."""
        return (*self.arrays, *self.objects, *self.literals)
