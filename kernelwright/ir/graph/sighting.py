"""One place in the user's source where a value had a name."""

from dataclasses import dataclass

SEPARATOR = " · "


@dataclass(frozen=True, slots=True)
class Sighting:
    """A value as a variable of a traced function, or as what a call returned."""

    order: int
    """Its place among all sightings of a trace, in time."""
    path: tuple[str, ...]
    """The calls around it, from the traced function inwards: `("layer 3", "mlp")`."""
    name: str
    """`scores`, `rope(q)` or `mlp`; empty for a result that was given no name."""
    line: int
    file: str = ""
    """The file's name where it is not the traced function's."""
    is_call: bool = False

    @property
    def words(self) -> str:
        """Return the whole path, as people read it."""
        return SEPARATOR.join((*self.path, self.name))

    @property
    def place(self) -> str:
        """Return the line, with the file where that needs saying."""
        return f"{self.file}:{self.line}" if self.file else f"line {self.line}"


Labels = tuple[tuple[int, tuple[Sighting, ...]], ...]
"""The sightings of a graph's values; they identify nothing."""
